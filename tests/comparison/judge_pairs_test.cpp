#include "comparison/judge_pairs.h"

#include <cmath>

#include "comparison/accumulation_error.h"
#include "judge/fallback_rule.h"
#include "judge/noise_rule.h"
#include "measure/cpu/cpu_backend.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::comparison::judge_pairs_test {
namespace {

using judge::Rule;
using test::make_entry;
using trace::Kind;

// One pair of entries and what was measured of it.
struct Measured {
  explicit Measured(trace::TensorEntry made) : entry(std::move(made)), manifest() {
    manifest.tensors = {entry};
    result.key = entry.key;
    result.comparison.emplace();
    measure::TileStats& stats = result.comparison->measurement.total;
    stats.elements = 4;
    stats.finite = 4;
    stats.sum_r2 = 100;
  }

  // The record, with the entry on both sides.
  TensorComparison record() const {
    TensorComparison both = result;
    both.reference = layout::view_of(entry);
    both.candidate = both.reference;
    return both;
  }

  judge::Tolerance resolve() const {
    std::vector<TensorComparison> results{record()};
    judge(results);
    return results[0].comparison->tolerance;
  }

  void judge(std::vector<TensorComparison>& results) const {
    const test::MemoryTrace nothing;
    judge_results(Tolerances(manifest, rules, results),
                  AccumulationError(nothing, results, measure::cpu_backend()), results);
  }

  trace::TensorEntry entry;
  trace::Manifest manifest;
  TensorComparison result;
  judge::Policy rules;
};

judge::NoiseEstimate noise_of(std::vector<double> norms) {
  return {10, norms, std::vector<double>(norms.size(), 1e-6), measure::Grid({4}, {1}), {}};
}

TEST_CASE("integers are exact") {
  Measured measured(make_entry("ids", {4}, trace::Kind::kInput, tensor::DType::kInt64));
  measured.result.exact = true;
  CHECK(measured.resolve().rule == Rule::kExact);
  CHECK(measured.resolve().allowed_norm() == 0);
}

TEST_CASE("without noise the fallback judges, by depth and typical size") {
  Measured measured(make_entry("layers.1.mlp", {4}));
  const judge::Tolerance found = measured.resolve();
  CHECK(found.rule == Rule::kFallback);
  // The only tensor of its kind is itself typical: √4 · 5 = ‖R‖.
  CHECK(found.allowed_norm() == Catch::Approx(24 * 1.03 * 1.03 * 0x1p-23 * (10 + 10)));
}

TEST_CASE("with noise the noise judges, the largest of the runs") {
  Measured measured(make_entry("layers.1.mlp", {4}));
  measured.result.comparison->noise = noise_of({1e-6, 3e-6, 2e-6});
  const judge::Tolerance found = measured.resolve();
  CHECK(found.rule == Rule::kNoise);
  const double widening = judge::small_sample_factor(4, 3);
  CHECK(found.allowed_norm() == Catch::Approx(4 * widening * 3e-6 + 2 * widening * 0x1p-23 * 10));
}

TEST_CASE("where no noise run differs the fallback's multiplier stands in, in single precision") {
  Measured measured(make_entry("weight_norm", {4}));
  measured.result.comparison->noise = noise_of({0, 0, 0});
  const double of_floor = measured.resolve().allowed_norm();
  CHECK(measured.resolve().rule == Rule::kNoise);
  CHECK(of_floor == Approx(judge::kFallbackMultiplierWide * 10 * 0x1p-23));
  measured.result.comparison->noise = noise_of({0, 1e-12, 0});
  CHECK(measured.resolve().allowed_norm() < of_floor / 5);

  Measured half(make_entry("table", {4}, trace::Kind::kOutput, tensor::DType::kBFloat16));
  half.result.comparison->noise = noise_of({0, 0, 0});
  const double without = half.resolve().allowed_norm();
  half.result.comparison->noise = noise_of({0, 1e-12, 0});
  CHECK(half.resolve().allowed_norm() == Approx(without));
  // What a step begins with is not computed in it.
  Measured weight(make_entry("w", {4}, trace::Kind::kParam));
  weight.result.comparison->noise = noise_of({0, 0, 0});
  CHECK(weight.resolve().allowed_norm() < of_floor / 5);
}

// Learned from a dilated convolution, a reference on a CPU and a candidate in TF32 on a GPU.
TEST_CASE("the noise of a reference says little of a candidate that rounds more coarsely") {
  Measured measured(make_entry("layers.1.mlp", {4}));
  trace::TensorEntry narrow = measured.entry;
  narrow.computed_in = tensor::DType::kTensorFloat32;
  const auto tolerance_with = [&](double noise) {
    measured.result.comparison->noise = noise_of({noise});
    std::vector<TensorComparison> results{measured.record()};
    results[0].candidate = layout::view_of(narrow);
    measured.judge(results);
    return results[0].comparison->tolerance;
  };
  const judge::Tolerance fallback = tolerance_with(1e-6);
  CHECK(fallback.rule == Rule::kFallback);
  CHECK(fallback.allowed_norm() == Catch::Approx(6 * 1.03 * 1.03 * 0x1p-10 * (10 + 10)));
  // Where its noise allows more, that stays.
  CHECK(tolerance_with(5).rule == Rule::kNoise);
  // A reference that rounds alike has noise that says it.
  measured.entry.computed_in = tensor::DType::kTensorFloat32;
  CHECK(tolerance_with(1e-6).rule == Rule::kNoise);
}

TEST_CASE("a rule changes the numbers and is named") {
  Measured measured(make_entry("layers.1.mlp", {4}));
  measured.rules = {{{"other"}, {}, 9, {}, {}, false, "", ""},
                    {{"layers.*"}, {trace::Kind::kOutput}, 8, 0, 0.5, false, "", ""}};
  measured.result.comparison->noise = noise_of({3e-6});
  const judge::Tolerance found = measured.resolve();
  CHECK(rule_text(found) == "policy:1");
  const double widening = judge::small_sample_factor(4, 1);
  CHECK(found.allowed_norm() == Catch::Approx(8 * widening * 3e-6 + 0.5 * 2));
  measured.result.comparison->noise.reset();
  const judge::Tolerance fallback = measured.resolve();
  CHECK(fallback.multiplier == 8);
  CHECK(fallback.allowed_norm() == Catch::Approx(8 * 1.03 * 1.03 * 0x1p-23 * (10 + 10) + 0.5 * 2));
}

TEST_CASE("a rule may ask for equality") {
  Measured measured(make_entry("layers.1.mlp", {4}));
  measured.rules = {{{"layers.1.mlp"}, {}, {}, {}, {}, true, "", ""}};
  measured.result.comparison->noise = noise_of({3});
  CHECK(measured.resolve().allowed_norm() == 0);
  CHECK(rule_text(measured.resolve()) == "policy:0");
}

TEST_CASE("the precision is that in which a tensor was computed") {
  Measured measured(make_entry("norm", {4}, trace::Kind::kGradNorm, tensor::DType::kFloat64));
  const double stored = measured.resolve().epsilon;
  measured.entry.computed_in = tensor::DType::kFloat32;
  CHECK(stored == 0x1p-52);
  CHECK(measured.resolve().epsilon == 0x1p-23);
}

TEST_CASE("integers do not make floating-point tensors of their kind look large") {
  Measured floats(make_entry("layers.1.mlp", {4}));
  Measured integers(make_entry("ids", {4}, trace::Kind::kOutput, tensor::DType::kInt64));
  integers.result.exact = true;
  integers.result.comparison->measurement.total.sum_r2 = 1e20;
  std::vector<TensorComparison> results{floats.record(), integers.record(), integers.record()};
  floats.judge(results);
  CHECK(results[0].comparison->tolerance.allowed_norm() == floats.resolve().allowed_norm());
}

// How the two sides of a tensor of 100 elements were made.
struct Made {
  Kind kind = Kind::kParamGrad;
  std::optional<tensor::DType> computed_in = tensor::DType::kFloat16;
  double reference_scale = 1;
  double candidate_scale = 1;
};

TensorComparison sides(const Made& made) {
  trace::TensorEntry entry = make_entry("w", {10, 10}, made.kind);
  entry.computed_in = made.computed_in;
  const auto scaled = [&entry](double scale) {
    return layout::with_entries(layout::view_of(entry), [scale](trace::TensorEntry one) {
      one.scale = scale;
      return one;
    });
  };
  TensorComparison result;
  result.key = entry.key;
  result.reference = scaled(made.reference_scale);
  result.candidate = scaled(made.candidate_scale);
  return result;
}

// Whether an element that is zero in the reference may be half a step of fp16's subnormals in the
// candidate, where noise runs are off by far less.
bool may_be_half_a_step(const Made& made, const std::vector<TensorComparison>& others = {}) {
  constexpr double kHalfStep = 0x1p-25;
  TensorComparison result = sides(made);
  measure::TileStats& stats = result.comparison.emplace().measurement.total;
  stats.elements = stats.finite = 100;
  stats.sum_r2 = 1e-4;
  stats.sum_d2 = kHalfStep * kHalfStep;
  stats.largest = measure::Extreme{kHalfStep, 0, kHalfStep, {0, 3}};
  result.comparison->noise =
      judge::NoiseEstimate{1e-2, {1e-8}, {1e-9}, measure::Grid({10, 10}, {1, 1}), {}};
  std::vector<TensorComparison> results = others;
  results.push_back(std::move(result));
  const trace::Manifest manifest;
  const judge::Policy rules;
  const test::MemoryTrace nothing;
  judge_results(Tolerances(manifest, rules, results),
                AccumulationError(nothing, results, measure::cpu_backend()), results);
  return results.back().comparison->slices->beyond == 0;
}

TEST_CASE("an element may be off by the steps of the type that it was computed in") {
  CHECK(may_be_half_a_step({}));
  CHECK(may_be_half_a_step({.kind = Kind::kOutput}));
  CHECK_FALSE(may_be_half_a_step({.computed_in = std::nullopt}));
  CHECK_FALSE(may_be_half_a_step({.computed_in = tensor::DType::kBFloat16}));
  CHECK_FALSE(may_be_half_a_step({.computed_in = tensor::DType::kFloat8E5M2}));
  CHECK_FALSE(may_be_half_a_step({.kind = Kind::kParamAfterStep}));
}

TEST_CASE("the steps of fp16 are as small as the loss scale makes them") {
  constexpr double kScale = 0x1p-16;
  CHECK_FALSE(may_be_half_a_step({.reference_scale = kScale, .candidate_scale = kScale}));
  CHECK(may_be_half_a_step({.candidate_scale = kScale}));
  // A main gradient was divided by the scale that the raw gradients of the step have.
  const Made main{.kind = Kind::kMainGrad};
  CHECK(may_be_half_a_step(main, {sides({})}));
  CHECK(may_be_half_a_step(main, {sides({.candidate_scale = kScale})}));
  CHECK_FALSE(
      may_be_half_a_step(main, {sides({.reference_scale = kScale, .candidate_scale = kScale})}));
  CHECK_FALSE(may_be_half_a_step(main));
}

TEST_CASE("what was not measured gets no tolerance") {
  Measured measured(make_entry("a", {4}));
  std::vector<TensorComparison> results{measured.record()};
  results[0].comparison.reset();
  measured.judge(results);
  CHECK_FALSE(results[0].comparison.has_value());
}

TensorComparison measured_parameter(Kind kind, std::uint64_t step, double d2, double r2) {
  TensorComparison result;
  result.key = test::make_key("w", kind, step);
  result.comparison.emplace();
  result.comparison->measurement.total.sum_d2 = d2;
  result.comparison->measurement.total.sum_r2 = r2;
  return result;
}

TEST_CASE("parameters are apart from the first update on") {
  const auto apart = parameters_apart(
      {measured_parameter(Kind::kParam, 0, 4, 100),
       measured_parameter(Kind::kParamAfterStep, 0, 9, 100),
       measured_parameter(Kind::kParam, 1, 7, 60), measured_parameter(Kind::kParam, 1, 2, 40),
       measured_parameter(Kind::kParam, 1, 1e300 * 1e300, 40),
       measured_parameter(Kind::kOutput, 1, 50, 60), measured_parameter(Kind::kParam, 3, 4, 100)});
  REQUIRE(apart.size() == 1);
  CHECK(apart.at(1).difference == 0.3);
  CHECK(apart.at(1).beyond_noise == 0.3);
}

TEST_CASE("parameters are apart beyond noise where no update was replayed and no noise shows it") {
  const auto beyond = [](double noise, bool replayed) {
    std::vector<TensorComparison> results{measured_parameter(Kind::kParamAfterStep, 0, 9, 100),
                                          measured_parameter(Kind::kParam, 1, 9, 100)};
    if (replayed) results[0].comparison->replay.emplace();
    results[1].comparison->noise.emplace();
    results[1].comparison->noise->norms = {noise};
    return parameters_apart(results).at(1).beyond_noise;
  };
  CHECK(beyond(0.7, false) == 0.3);
  CHECK(beyond(0.8, false) == 0);  // 4 times that is 3.2, and they are 3 apart
  CHECK(beyond(0, true) == 0);
}

TEST_CASE("noise of one parameter shows nothing of another") {
  std::vector<TensorComparison> results{measured_parameter(Kind::kParamAfterStep, 0, 9, 50),
                                        measured_parameter(Kind::kParam, 1, 9, 50),
                                        measured_parameter(Kind::kParam, 1, 16, 50)};
  results[1].comparison->noise.emplace();
  results[1].comparison->noise->norms = {100};
  const ParametersApart apart = parameters_apart(results).at(1);
  CHECK(apart.difference == 0.5);
  CHECK(apart.beyond_noise == 0.4);
}

TEST_CASE("parameters of no size are not apart") {
  CHECK(parameters_apart({measured_parameter(Kind::kParamAfterStep, 0, 0, 0),
                          measured_parameter(Kind::kParam, 1, 0, 0)})
            .empty());
}

TEST_CASE("what a step begins with does not follow from its parameters") {
  CHECK_FALSE(inherits(Kind::kParam));
  CHECK_FALSE(inherits(Kind::kOptimizerState));
  CHECK(inherits(Kind::kOutput));
  CHECK(inherits(Kind::kMainGrad));
}

}  // namespace
}  // namespace ttrace::comparison::judge_pairs_test
