#include "engine/compare_traces.h"
#include "optimizer/replay_updates.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::optimizer::reuse_update_verdicts_test {
namespace {

using judge::Outcome;
using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

// A parameter of 1000 elements that SGD moves by 0.5 · gradient, and the beginning of step 1.
struct Run {
  double last_gradient = 1;
  double carried_wrong = 0;  // added to the last element between the steps
  tensor::DType stored = tensor::DType::kFloat32;

  MemoryTrace made() const {
    MemoryTrace trace;
    const auto put = [&](const std::string& name, Kind kind, std::uint64_t step,
                         std::vector<double> values, tensor::DType dtype) {
      trace::TensorEntry entry = make_entry(name, {values.size()}, kind);
      entry.key.step = step;
      entry.dtype = dtype;
      trace.put(entry, values);
    };
    std::vector<double> gradient(1000, 1);
    gradient.back() = last_gradient;
    std::vector<double> after(1000, 0.5);
    after.back() = 1 - 0.5 * last_gradient;
    std::vector<double> next = after;
    next.back() += carried_wrong;
    put("w", Kind::kParam, 0, std::vector<double>(1000, 1), stored);
    put("w", Kind::kMainGrad, 0, gradient, tensor::DType::kFloat32);
    put("w", Kind::kParamAfterStep, 0, after, stored);
    put("w", Kind::kParam, 1, next, stored);
    put("w.main_param", Kind::kOptimizerState, 1, next, tensor::DType::kFloat32);
    trace::OptimizerGroup group;
    group.type = "sgd";
    group.numbers = {{"lr", 0.5}, {"momentum", 0}, {"updates", 1}};
    group.params = {"w"};
    trace.edit().optimizer = {group};
    return trace;
  }
};

Outcome outcome_of(const comparison::CompareReport& report, Kind kind, std::uint64_t step) {
  for (const comparison::TensorComparison& result : report.results) {
    if (result.key.kind == kind && result.key.step == step) return result.outcome;
  }
  throw std::logic_error("no such tensor");
}

comparison::CompareReport compared(const Run& reference, const Run& candidate) {
  const MemoryTrace r = reference.made();
  const MemoryTrace c = candidate.made();
  return engine::compare_traces(r, c, {}, {});
}

TEST_CASE("a parameter that a step begins with is judged as the update that made it") {
  // The gradient is wrong; the update follows from it, and so does all that comes after.
  Run candidate;
  candidate.last_gradient = 1.5;
  for (const tensor::DType stored : {tensor::DType::kFloat32, tensor::DType::kFloat64}) {
    candidate.stored = stored;
    const auto report = compared({}, candidate);
    CHECK(outcome_of(report, Kind::kMainGrad, 0) == Outcome::kDiverged);
    CHECK(outcome_of(report, Kind::kParamAfterStep, 0) == Outcome::kMatch);
    CHECK(outcome_of(report, Kind::kParam, 1) == Outcome::kMatch);
    CHECK(outcome_of(report, Kind::kOptimizerState, 1) == Outcome::kMatch);
  }
}

TEST_CASE("a parameter that changed between two steps diverges") {
  Run candidate;
  candidate.carried_wrong = 0.125;
  const auto report = compared({}, candidate);
  CHECK(outcome_of(report, Kind::kParamAfterStep, 0) == Outcome::kMatch);
  CHECK(outcome_of(report, Kind::kParam, 1) == Outcome::kDiverged);
  CHECK(outcome_of(report, Kind::kOptimizerState, 1) == Outcome::kDiverged);
}

}  // namespace
}  // namespace ttrace::optimizer::reuse_update_verdicts_test
