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
  for (std::size_t i = 0; i < 64; ++i) decayed.after[i] -= (i % 2 == 0 ? 1e-3 : -1e-3) * 0.01;
  CompareReport report = compared(reference, decayed);
  CHECK(update_of(report).outcome == Outcome::kNotJudged);
  CHECK_THAT(update_of(report).reason, Catch::Matchers::StartsWith("is off by 0.001 of a step"));
  CHECK(report.verdict == Verdict::kInconclusive);
  CHECK_THAT(report.why, Catch::Matchers::Contains("as by a wrong decay or learning rate"));

  Run turned = reference;  // in four elements, two steps each
  for (std::size_t i = 0; i < 4; ++i) {
    reference.gradient[i] = 1e-9;
    turned.gradient[i] = -1e-9;
    turned.after[i] = 1.01;
  }
  report = compared(reference, turned);
  CHECK_FALSE(update_of(report).spread);
  CHECK_THAT(report.why, Catch::Matchers::Contains("the updates of 1 of 1 parameter"));
}

// An update of 64 elements, whose gradient is off by `rough` on either side of 1.
Run with_gradient(double rough) {
  Run run;
  run.before.assign(64, 1);
  run.gradient.assign(64, 1);
  run.after.assign(64, 0.99);
  for (std::size_t i = 0; i < 64; ++i) run.gradient[i] += i % 2 == 0 ? rough : -rough;
  return run;
}

TEST_CASE("an update that its gradient contradicts diverges, or is not judged if that is rough") {
  const MemoryTrace reference = with_gradient(0).made();
  const MemoryTrace noise = with_gradient(0.05).made();
  for (const double times : {-1.0, 2.0, 1.3, 0.8}) {
    // Large and small steps alternate: equal ones would be named as a wrong learning rate.
    const auto lying = [&](double rough) {
      Run run = with_gradient(rough);
      for (std::size_t i = 0; i < 64; ++i) {
        run.after[i] = 1 - 0.01 * times * (i % 2 == 0 ? 0.6 : 1.28);
      }
      return run.made();
    };
    const MemoryTrace exact = lying(0);
    CompareReport report = engine::compare_traces(reference, exact, {}, {});
    CHECK(update_of(report).outcome == Outcome::kDiverged);
    CHECK_THAT(update_of(report).reason,
               Catch::Matchers::Contains("which no rounding of its gradient explains"));
    CHECK(report.verdict == Verdict::kWrong);

    const MemoryTrace rough = lying(0.04);
    report = engine::compare_traces(reference, rough, {&noise}, {});
    CHECK(update_of(report).outcome == Outcome::kNotJudged);
    CHECK_THAT(update_of(report).reason, Catch::Matchers::Contains("its gradient matches"));
    CHECK(report.verdict == Verdict::kInconclusive);
  }
}

TEST_CASE("a multiple of the step or of the parameter is no rounding, however small") {
  Run reference = with_gradient(0);
  for (std::size_t i = 0; i < 64; ++i) {
    reference.before[i] = 1 + static_cast<double>(i % 7);
    reference.after[i] = reference.before[i] - (i % 3 == 0 ? 0.01 : -0.02);
  }
  Run longer = reference;
  Run decayed = reference;
  Run rounded = reference;
  for (std::size_t i = 0; i < 64; ++i) {
    const double step = reference.after[i] - reference.before[i];
    longer.after[i] += 0.01 * step;
    decayed.after[i] -= 1e-4 * reference.before[i];
    rounded.after[i] += (i % 2 == 0 ? 1e-4 : -1e-4);
  }
  for (const Run& wrong : {longer, decayed}) {
    CHECK(update_of(compared(reference, wrong)).outcome == Outcome::kDiverged);
  }
  CHECK(update_of(compared(reference, rounded)).outcome != Outcome::kDiverged);
  // A gradient that is off by as much explains it.
  const MemoryTrace r = reference.made();
  longer.gradient = with_gradient(0.008).gradient;
  const MemoryTrace c = longer.made();
  reference.gradient = with_gradient(0.01).gradient;
  const MemoryTrace noise = reference.made();
  CHECK(update_of(engine::compare_traces(r, c, {&noise}, {})).outcome != Outcome::kDiverged);
}

TEST_CASE("a parameter that an earlier step left undecided is not blamed on a later one") {
  MemoryTrace traces[2];
  for (int side = 0; side < 2; ++side) {
    // The gradient of the first element is rounding alone: its step may turn.
    double first = 1;
    for (std::uint64_t step = 0; step < 2; ++step) {
      const auto put = [&](Kind kind, double one, double others) {
        trace::TensorEntry entry = make_entry("w", {4}, kind);
        entry.key.step = step;
        traces[side].put(entry, {one, others, others, others});
      };
      const double turned = side == 0 ? -0.01 : 0.01;
      put(Kind::kParam, first, 1 - 0.01 * static_cast<double>(step));
      put(Kind::kMainGrad, side == 0 ? 1e-9 : -1e-9, 1);
      first += turned;
      put(Kind::kParamAfterStep, first, 0.99 - 0.01 * static_cast<double>(step));
    }
    traces[side].put(make_entry("loss", {1}, Kind::kLoss), {3});
  }
  const CompareReport report = engine::compare_traces(traces[0], traces[1], {}, {});
  for (const TensorComparison& result : report.results) {
    CHECK(result.outcome != Outcome::kDiverged);
  }
}

TEST_CASE("a matrix that turned without its gradient diverges") {
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
  CHECK(update_of(report).outcome == Outcome::kDiverged);

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
