#include "engine/compare_traces.h"
#include "optimizer/replay_updates.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::optimizer::updates_without_replay_test {
namespace {

using answer::Verdict;
using comparison::CompareReport;
using comparison::TensorComparison;
using judge::Outcome;
using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

// An optimizer that moves every element by 0.01, in the direction of the gradient's sign.
struct Run {
  std::vector<double> before{1, 2, 3, 4};
  std::vector<double> gradient{1e-9, 1, 1, 1};
  std::vector<double> after{0.99, 1.99, 2.99, 3.99};
  tensor::Shape shape;  // a vector if empty
  bool with_parameter = true;
  std::uint64_t steps = 1;

  MemoryTrace made() const {
    MemoryTrace trace;
    for (std::uint64_t step = 0; step < steps; ++step) {
      const auto put = [&](Kind kind, const std::vector<double>& values) {
        trace::TensorEntry entry =
            make_entry("w", shape.empty() ? tensor::Shape{values.size()} : shape, kind);
        entry.key.step = step;
        trace.put(entry, values);
      };
      if (with_parameter || step > 0) put(Kind::kParam, step == 0 ? before : after);
      if (step > 0) break;
      put(Kind::kMainGrad, gradient);
      put(Kind::kParamAfterStep, after);
      trace.put(make_entry("loss", {1}, Kind::kLoss), {3});
    }
    trace::OptimizerGroup group;
    group.type = "lion";
    group.params = {"w"};
    trace.edit().optimizer = {group};
    return trace;
  }
};

CompareReport compared(const Run& reference, const Run& candidate) {
  const MemoryTrace r = reference.made();
  const MemoryTrace c = candidate.made();
  return engine::compare_traces(r, c, {}, {});
}

const TensorComparison& update_of(const CompareReport& report) {
  for (const TensorComparison& result : report.results) {
    if (result.key.kind == Kind::kParamAfterStep) return result;
  }
  throw std::logic_error("no update");
}

Run with_a_turned_sign() {
  Run run;
  run.gradient[0] = -1e-9;
  run.after[0] = 1.01;
  return run;
}

TEST_CASE("an update that matches is a match, whatever made it") {
  CHECK(update_of(compared({}, {})).outcome == Outcome::kMatch);
}

TEST_CASE("two steps apart from good inputs is not judged, and no finding") {
  const CompareReport report = compared({}, with_a_turned_sign());
  CHECK(update_of(report).outcome == Outcome::kNotJudged);
  CHECK_THAT(update_of(report).reason, Catch::Matchers::Contains("cannot be replayed"));
  // It is the only update, and nobody has judged it.
  CHECK(report.verdict == Verdict::kInconclusive);
  CHECK_THAT(report.why,
             Catch::Matchers::Contains("the updates of 1 of 1 parameter were not judged"));
}

TEST_CASE("an update that is off everywhere by little is not judged, and no match") {
  Run reference;
  for (std::vector<double>* values : {&reference.before, &reference.gradient}) {
    values->assign(64, 1);
  }
  reference.after.assign(64, 0.99);
  Run decayed = reference;
  for (double& value : decayed.after) value -= 1e-3 * 0.01;
  CompareReport report = compared(reference, decayed);
  CHECK(update_of(report).outcome == Outcome::kNotJudged);
  CHECK_THAT(update_of(report).reason, Catch::Matchers::StartsWith("is off by 0.001 of a step"));
  CHECK(report.verdict == Verdict::kInconclusive);
  CHECK_THAT(report.why, Catch::Matchers::Contains("as by a wrong decay or learning rate"));

  Run turned = reference;  // in four elements, two steps each
  for (std::size_t i = 0; i < 4; ++i) turned.after[i] = 1.01;
  report = compared(reference, turned);
  CHECK_FALSE(update_of(report).spread);
  CHECK_THAT(report.why, Catch::Matchers::Contains("the updates of 1 of 1 parameter"));
}

TEST_CASE("an update that its gradient contradicts is not judged, and no match") {
  Run reference;
  for (std::vector<double>* values : {&reference.before, &reference.gradient}) {
    values->assign(64, 1);
  }
  reference.after.assign(64, 0.99);
  for (const double times : {-1.0, 2.0, 1.3, 0.8}) {
    Run lying = reference;
    // Large and small steps alternate: equal ones would be named as a wrong learning rate.
    for (std::size_t i = 0; i < 64; ++i) {
      lying.after[i] = 1 - 0.01 * times * (i % 2 == 0 ? 0.6 : 1.28);
    }
    const CompareReport report = compared(reference, lying);
    CHECK(update_of(report).outcome == Outcome::kNotJudged);
    CHECK_THAT(update_of(report).reason, Catch::Matchers::Contains("its gradient matches"));
    CHECK(report.verdict == Verdict::kInconclusive);
  }
}

TEST_CASE("a matrix that turned without its gradient is not judged, and no match") {
  const auto run = [](double gradient, bool turned) {
    Run made;
    made.shape = {8, 8};
    made.before.assign(64, 1);
    made.gradient.assign(64, 1);
    made.after.assign(64, 0.99);
    for (std::size_t i = 0; i < 64; ++i) {
      // A third of the elements goes the other way: 1.1 of a step, as long as before.
      if (turned && i < 20) made.after[i] = 1.01;
      made.gradient[i] += i % 2 == 0 ? gradient : -gradient;
    }
    return made.made();
  };
  const MemoryTrace reference = run(0, false);
  const MemoryTrace turned = run(0, true);
  const CompareReport report = engine::compare_traces(reference, turned, {}, {});
  CHECK(update_of(report).outcome == Outcome::kNotJudged);
  CHECK(update_of(report).spread);
  CHECK_THAT(update_of(report).reason, Catch::Matchers::Contains("its gradient matches"));
  CHECK(report.verdict == Verdict::kInconclusive);

  // A gradient that noise runs move by a fiftieth says less.
  const MemoryTrace rough = run(0.02, true);
  const MemoryTrace noise = run(0.03, false);
  CHECK_FALSE(update_of(engine::compare_traces(reference, rough, {&noise}, {})).spread);
}

TEST_CASE("the next step's parameter follows it") {
  Run reference;
  Run candidate = with_a_turned_sign();
  reference.steps = candidate.steps = 2;
  const CompareReport report = compared(reference, candidate);
  CHECK(report.verdict == Verdict::kInconclusive);
  CHECK(report.findings.empty());
  for (const TensorComparison& result : report.results) {
    if (result.key.step == 1) CHECK(result.outcome == Outcome::kNotJudged);
  }
}

TEST_CASE("a parameter that did not move diverges") {
  Run still;
  still.after = still.before;
  const CompareReport report = compared({}, still);
  CHECK(update_of(report).outcome == Outcome::kDiverged);
  CHECK_THAT(update_of(report).reason, Catch::Matchers::StartsWith("did not move"));
}

TEST_CASE("more than two steps diverge") {
  Run far;
  far.after = {0.9, 1.9, 2.9, 3.9};
  CHECK(update_of(compared({}, far)).outcome == Outcome::kDiverged);
}

TEST_CASE("a bad gradient is told instead") {
  Run wrong = with_a_turned_sign();
  wrong.gradient[1] = 2;
  CHECK(update_of(compared({}, wrong)).outcome == Outcome::kDiverged);
}

TEST_CASE("without the parameter before the step its length is not known") {
  Run reference;
  Run candidate = with_a_turned_sign();
  reference.with_parameter = candidate.with_parameter = false;
  CHECK(update_of(compared(reference, candidate)).outcome == Outcome::kDiverged);
}

}  // namespace
}  // namespace ttrace::optimizer::updates_without_replay_test
