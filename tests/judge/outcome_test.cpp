#include "judge/outcome.h"

#include <limits>
#include <set>

#include "support/catch.h"

namespace ttrace::judge::outcome_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A tensor of ‖R‖ = 10 whose candidate is `difference` away.
measure::Measurement measured(double difference, double reference = 10) {
  measure::Measurement measurement;
  measure::TileStats& stats = measurement.total;
  stats.elements = 4;
  stats.finite = 4;
  stats.sum_d2 = difference * difference;
  stats.sum_r2 = reference * reference;
  stats.sum_c2 = reference * reference;
  stats.sum_rc = reference * reference;
  stats.unequal = difference == 0 ? 0 : 1;
  return measurement;
}

Tolerance allowing(double norm) {
  Tolerance tolerance;
  tolerance.rule = Rule::kFallback;
  tolerance.epsilon = 1;
  tolerance.multiplier = 1;
  tolerance.unit_norm = norm;
  return tolerance;
}

Outcome outcome_of(const measure::Measurement& measurement, double allowed, bool exact = false) {
  return judge(trace::Kind::kOutput, measurement, allowing(allowed), exact).outcome;
}

TEST_CASE("a difference within the tolerance matches, at the limit too, one beyond it diverges") {
  CHECK(outcome_of(measured(0), 1) == Outcome::kMatch);
  CHECK(outcome_of(measured(1), 1) == Outcome::kMatch);
  CHECK(outcome_of(measured(1.0000001), 1) == Outcome::kDiverged);
  CHECK(outcome_of(measured(0), 0) == Outcome::kMatch);
  CHECK(outcome_of(measured(1e-150), 0) == Outcome::kDiverged);
  CHECK(judge(trace::Kind::kOutput, measured(0), allowing(1), false).reason.empty());
}

TEST_CASE("a difference whose squares underflow is still a difference") {
  measure::Measurement measurement = measured(0);
  measurement.total.largest = measure::Extreme{1e-200, 0, 1e-200, {0}};
  CHECK(outcome_of(measurement, 1e-201) == Outcome::kDiverged);
  CHECK(outcome_of(measurement, 1e-199) == Outcome::kMatch);
}

TEST_CASE("equal bits match whatever is allowed, but for zeros") {
  measure::Measurement equal = measured(0);
  equal.total.unequal = 0;
  CHECK(outcome_of(equal, 1e9) == Outcome::kMatch);
  CHECK(outcome_of(measured(0, 0), kInfinity) == Outcome::kBelowNoiseFloor);
}

TEST_CASE("a tolerance as wide as the tensor checks nothing") {
  CHECK(outcome_of(measured(1), 10) == Outcome::kBelowNoiseFloor);
  CHECK(outcome_of(measured(1), 9.99) == Outcome::kMatch);
  CHECK(outcome_of(measured(11), 10) == Outcome::kDiverged);
  CHECK_FALSE(judge(trace::Kind::kOutput, measured(1), allowing(10), false).reason.empty());
}

TEST_CASE("a zero reference is checked against its absolute tolerance") {
  CHECK(outcome_of(measured(0, 0), 0) == Outcome::kMatch);
  CHECK(outcome_of(measured(1, 0), 2) == Outcome::kMatch);
  CHECK(outcome_of(measured(3, 0), 2) == Outcome::kDiverged);
  // A noise run that is not finite allows everything, which is no check.
  CHECK(outcome_of(measured(3, 0), kInfinity) == Outcome::kBelowNoiseFloor);
  CHECK(outcome_of(measured(3), kInfinity) == Outcome::kBelowNoiseFloor);
}

TEST_CASE("a tolerance that is not a number lets nothing pass") {
  CHECK(outcome_of(measured(1), kNaN) == Outcome::kDiverged);
}

TEST_CASE("non-finite values on one side diverge whatever the sums say") {
  measure::Measurement measurement = measured(0);
  measurement.total.finite = 3;
  measurement.total.nonfinite_different = 1;
  const Judgement judgement = judge(trace::Kind::kOutput, measurement, allowing(1), false);
  CHECK(judgement.outcome == Outcome::kDiverged);
  CHECK(judgement.reason.find("1 element") == 0);
}

TEST_CASE("the same non-finite values on both sides are left out, but not if nothing remains") {
  measure::Measurement some = measured(0);
  some.total.finite = 3;
  some.total.nonfinite_equal = 1;
  CHECK(outcome_of(some, 1) == Outcome::kMatch);
  measure::Measurement all = measured(0, 0);
  all.total.finite = 0;
  all.total.nonfinite_equal = 4;
  const Judgement judgement = judge(trace::Kind::kOutput, all, allowing(1), false);
  CHECK(judgement.outcome == Outcome::kNotJudged);
  CHECK(judgement.reason == "no element is finite");
}

TEST_CASE("sums beyond binary64 are not compared") {
  for (double measure::TileStats::*sum :
       {&measure::TileStats::sum_d2, &measure::TileStats::sum_r2, &measure::TileStats::sum_c2}) {
    for (const double value : {kInfinity, kNaN}) {
      measure::Measurement measurement = measured(0);
      measurement.total.*sum = value;
      CHECK(outcome_of(measurement, 1) == Outcome::kNotJudged);
    }
  }
}

TEST_CASE("replicas that disagree are told before anything else") {
  measure::Measurement measurement = measured(100);
  measurement.replicas_differ = true;
  measurement.replicas.change().distance_norm = 2;
  measurement.total.nonfinite_different = 1;
  CHECK(outcome_of(measurement, 1) == Outcome::kReplicaConflict);
  measurement.replicas.change().distance_norm = kNaN;
  CHECK(outcome_of(measurement, 1) == Outcome::kReplicaConflict);
  measurement.replicas.change().distance_norm = kInfinity;
  CHECK(outcome_of(measurement, 1) == Outcome::kReplicaConflict);
}

TEST_CASE("replicas that drift apart by less than the tolerance are no conflict") {
  measure::Measurement measurement = measured(0.5);
  measurement.replicas_differ = true;
  measurement.replicas.change().distance_norm = 1;
  CHECK(outcome_of(measurement, 1) == Outcome::kMatch);
  measurement.total.sum_d2 = 4;
  CHECK(outcome_of(measurement, 1) == Outcome::kDiverged);
}

TEST_CASE(
    "replicated gradients that are per cents apart are a conflict, however wide the tolerance") {
  measure::Measurement measurement = measured(0.5);
  measurement.replicas_differ = true;
  measurement.replicas.change().distance_norm = 0.04 * measure::reference_norm(measurement.total);
  const auto outcome = [&](trace::Kind kind) {
    return judge(kind, measurement, allowing(5), false).outcome;
  };
  CHECK(outcome(trace::Kind::kOutput) == Outcome::kMatch);
  CHECK(outcome(trace::Kind::kMainGrad) == Outcome::kReplicaConflict);
}

TEST_CASE("integers are equal or not, whatever the tolerance says") {
  measure::Measurement measurement = measured(0);
  CHECK(outcome_of(measurement, 1, true) == Outcome::kMatch);
  measurement.total.unequal = 1;
  const Judgement judgement = judge(trace::Kind::kOutput, measurement, allowing(100), true);
  CHECK(judgement.outcome == Outcome::kDiverged);
  CHECK(judgement.reason == "1 of 4 differ");
  measurement.total.unequal = 0;
  measurement.replicas_differ = true;
  measurement.replicas.change().distance_norm = 1;
  CHECK(outcome_of(measurement, 100, true) == Outcome::kReplicaConflict);
}

TEST_CASE("a tensor without elements matches") {
  CHECK(judge(trace::Kind::kOutput, {}, allowing(0), false).outcome == Outcome::kMatch);
  CHECK(judge(trace::Kind::kOutput, {}, allowing(0), true).outcome == Outcome::kMatch);
}

TEST_CASE("every outcome has a name of its own, and five of them are bad") {
  std::set<std::string_view> names;
  std::set<std::string_view> bad;
  for (const Outcome outcome : kAllOutcomes) {
    names.insert(outcome_name(outcome));
    if (is_bad(outcome)) bad.insert(outcome_name(outcome));
  }
  CHECK(names.size() == kAllOutcomes.size());
  CHECK(names.count("") == 0);
  CHECK(bad == std::set<std::string_view>{"diverged", "extra", "incomparable", "missing",
                                          "replica_conflict"});
}

}  // namespace
}  // namespace ttrace::judge::outcome_test
