#include "comparison/judge_pairs.h"

#include <cmath>

#include "judge/fallback_rule.h"
#include "judge/noise_rule.h"
#include "measure/cpu/cpu_backend.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::comparison {
namespace {

using judge::Rule;
using test::make_entry;

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

TEST_CASE("what was not measured gets no tolerance") {
  Measured measured(make_entry("a", {4}));
  std::vector<TensorComparison> results{measured.record()};
  results[0].comparison.reset();
  measured.judge(results);
  CHECK_FALSE(results[0].comparison.has_value());
}

}  // namespace
}  // namespace ttrace::comparison
