#include "localize/growth_without_noise.h"

#include <limits>
#include <string>
#include <vector>

#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::localize::growth_without_noise_test {
namespace {

using answer::Verdict;
using comparison::CompareReport;
using judge::Outcome;
using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

void put(MemoryTrace& trace, const std::string& name, Kind kind, const tensor::Shape& shape,
         const std::vector<double>& values) {
  trace::TensorEntry entry = make_entry(name, shape, kind);
  if (kind != Kind::kParam) entry.key.microbatch = 0;
  trace.put(entry, values);
}

// Relative errors of the outputs of a and b, and of b's and a's gradients. f32 allows 3e-6 to 6e-6.
struct Errors {
  double a = 0;
  double b = 0;
  double grad_b = 0;
  double grad_a = 0;
};

MemoryTrace trace_of(const Errors& errors, const tensor::Shape& weight) {
  MemoryTrace made;
  put(made, "a.weight", Kind::kParam, weight,
      std::vector<double>(*tensor::element_count(weight), 1));
  put(made, "a", Kind::kOutput, {2}, {1 + errors.a, 2});
  put(made, "b", Kind::kOutput, {2}, {1 + errors.b, 2});
  put(made, "b", Kind::kGradOutput, {2}, {1 + errors.grad_b, 2});
  put(made, "a", Kind::kGradOutput, {2}, {1 + errors.grad_a, 2});
  trace::Module a;
  a.name = "a";
  a.class_name = "Layer";
  trace::Module b;
  b.name = "b";
  b.class_name = "Layer";
  b.computed_from = {{"a"}};
  made.edit().modules = {a, b};
  return made;
}

CompareReport compared(const Errors& errors, const tensor::Shape& weight = {2, 1, 1, 1}) {
  return engine::compare_traces(trace_of({}, weight), trace_of(errors, weight), {}, {{}, 1});
}

Outcome outcome_of(const CompareReport& out, const std::string& name, Kind kind) {
  for (const comparison::TensorComparison& result : out.results) {
    if (result.key.name == name && result.key.kind == kind) return result.outcome;
  }
  return Outcome::kMissing;
}

TEST_CASE("what grows from layer to layer of a convolutional network is not judged without noise") {
  const CompareReport out = compared({3e-5, 1e-4, 2e-3, 1e-2});
  CHECK(out.verdict == Verdict::kInconclusive);
  CHECK(out.growth.tensors == 4);
  CHECK(
      out.why ==
      "nothing diverged, but 4 of 5 tensors are off by what rounding of convolutions may do; noise "
      "runs (--noise) decide it");
}

TEST_CASE("a tensor that one run lacks has no growth") {
  const tensor::Shape weight{2, 1, 1, 1};
  const MemoryTrace reference = trace_of({}, weight);
  MemoryTrace more = trace_of({}, weight);
  put(more, "c", Kind::kGradOutput, {2}, {1, 2});
  const CompareReport lacking = engine::compare_traces(more, reference, {}, {{}, 1});
  CHECK(outcome_of(lacking, "c", Kind::kGradOutput) == Outcome::kMissing);
  CHECK(lacking.growth.tensors == 0);
  const CompareReport extra = engine::compare_traces(reference, more, {}, {{}, 1});
  CHECK(outcome_of(extra, "c", Kind::kGradOutput) == Outcome::kExtra);
}

TEST_CASE("the same of a network without convolutions diverges") {
  CHECK(compared({3e-5, 1e-4, 2e-3, 1e-2}, {2, 1}).verdict == Verdict::kWrong);
}

TEST_CASE("a jump is found where a layer makes it") {
  SECTION("in the first tensor that is off") {
    const CompareReport out = compared({1e-3, 1e-3});
    CHECK(outcome_of(out, "a", Kind::kOutput) == Outcome::kDiverged);
    CHECK(out.growth.tensors == 0);
  }
  SECTION("after what has grown") {
    const CompareReport out = compared({3e-5, 1e-2});
    CHECK(outcome_of(out, "a", Kind::kOutput) == Outcome::kNotJudged);
    CHECK(outcome_of(out, "b", Kind::kOutput) == Outcome::kDiverged);
    CHECK(out.verdict == Verdict::kWrong);
  }
  SECTION("in the backward pass after a good forward pass") {
    const CompareReport out = compared({0, 0, 5e-2, 5e-2});
    CHECK(outcome_of(out, "b", Kind::kGradOutput) == Outcome::kDiverged);
  }
  SECTION("to a value that is not finite") {
    const CompareReport out = compared({3e-5, std::numeric_limits<double>::quiet_NaN()});
    CHECK(outcome_of(out, "b", Kind::kOutput) == Outcome::kDiverged);
  }
}

TEST_CASE("gradients of convolutions in TF32 may be off by little more than their limit") {
  const auto trace_with = [](double error, const tensor::Shape& shape, Kind kind) {
    MemoryTrace made = trace_of({}, {2, 1, 1, 1});
    trace::TensorEntry entry = make_entry("a.weight", shape, kind);
    entry.key.microbatch = 0;
    entry.computed_in = tensor::DType::kTensorFloat32;
    made.put(entry, {1 + error, 1});
    return made;
  };
  const auto outcome_with = [&](double error, const tensor::Shape& shape,
                                Kind kind = Kind::kParamGrad) {
    const CompareReport out = engine::compare_traces(trace_with(0, shape, kind),
                                                     trace_with(error, shape, kind), {}, {{}, 1});
    return outcome_of(out, "a.weight", kind);
  };
  const tensor::Shape convolution{2, 1, 1, 1};
  CHECK(outcome_with(0.01, convolution) == Outcome::kMatch);
  CHECK(outcome_with(0.03, convolution) == Outcome::kNotJudged);
  CHECK(outcome_with(0.06, convolution) == Outcome::kDiverged);
  CHECK(outcome_with(0.03, {2, 1}) == Outcome::kDiverged);
  CHECK(outcome_with(0.06, convolution, Kind::kGradOutput) == Outcome::kNotJudged);
  CHECK(outcome_with(0.15, convolution, Kind::kGradOutput) == Outcome::kDiverged);
}

TEST_CASE("a convolution is known by its class or by its weight") {
  trace::Manifest manifest;
  CHECK_FALSE(convolves(manifest));
  manifest.modules.emplace_back().class_name = "Conv1D";  // a linear layer of GPT-2
  manifest.tensors.push_back(make_entry("experts", {8, 4, 4}, Kind::kParam));
  CHECK_FALSE(convolves(manifest));
  manifest.modules.emplace_back().class_name = "ParametrizedConv1d";
  CHECK(convolves(manifest));
}

}  // namespace
}  // namespace ttrace::localize::growth_without_noise_test
