#include "judge/tolerance.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::judge::tolerance_test {
namespace {

using tensor::DType;

constexpr double kInf = std::numeric_limits<double>::infinity();

Tolerance made(double unit, double floor) {
  Tolerance tolerance;
  tolerance.multiplier = 4;
  tolerance.unit_norm = unit;
  tolerance.floor_norm = floor;
  return tolerance;
}

TEST_CASE("what is allowed is the multiple of the unit and the floor") {
  CHECK(made(3, 0.5).allowed_norm() == 12.5);
  CHECK(made(0, 0).allowed_norm() == 0);
}

TEST_CASE("the passing multiplier is what the difference above the floor takes") {
  CHECK(passing_multiplier(made(2, 1), 9) == 4);
  CHECK(passing_multiplier(made(2, 1), 1.5) == 0.25);
  // It passes with its own passing multiplier, and is what separates passing from not.
  Tolerance tolerance = made(3, 2);
  tolerance.multiplier = passing_multiplier(tolerance, 11);
  CHECK(tolerance.allowed_norm() == 11);
}

TEST_CASE("the passing multiplier is zero if the floor alone allows the difference") {
  CHECK(passing_multiplier(made(2, 1), 1) == 0);
  CHECK(passing_multiplier(made(2, 1), 0) == 0);
  CHECK(passing_multiplier(made(0, 0), 0) == 0);
}

TEST_CASE("the passing multiplier is infinite if no multiple of the unit is enough") {
  CHECK(passing_multiplier(made(0, 1), 1.5) == kInf);
  CHECK(passing_multiplier(made(0, 0), 5e-324) == kInf);
  CHECK(passing_multiplier(made(2, 1), kInf) == kInf);
}

double shared(DType reference, DType candidate, std::optional<DType> reference_in = {},
              std::optional<DType> candidate_in = {}) {
  trace::TensorEntry r = test::make_entry("w", {}, trace::Kind::kOutput, reference);
  trace::TensorEntry c = test::make_entry("w", {}, trace::Kind::kOutput, candidate);
  r.computed_in = reference_in;
  c.computed_in = candidate_in;
  return shared_epsilon(*layout::view_of(r), *layout::view_of(c));
}

TEST_CASE("epsilon is that of the coarsest storage") {
  CHECK(shared(DType::kFloat32, DType::kFloat32) == 0x1p-23);
  CHECK(shared(DType::kFloat64, DType::kFloat32) == 0x1p-23);
  CHECK(shared(DType::kBFloat16, DType::kFloat32) == 0x1p-7);
  CHECK(shared(DType::kFloat32, DType::kFloat16) == 0x1p-10);
  CHECK(shared(DType::kFloat32, DType::kFloat8E4M3) == 0x1p-7);
}

TEST_CASE("epsilon is that of the coarsest computation") {
  CHECK(shared(DType::kFloat64, DType::kFloat64, DType::kFloat32) == 0x1p-23);
  CHECK(shared(DType::kFloat64, DType::kFloat64, {}, DType::kBFloat16) == 0x1p-7);
  // A finer computation does not undo the rounding of the storage.
  CHECK(shared(DType::kBFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat32) == 0x1p-7);
}

TEST_CASE("integers have no epsilon") {
  CHECK(shared(DType::kInt64, DType::kInt64) == 0);
  CHECK(shared(DType::kBool, DType::kUInt8) == 0);
  CHECK(shared(DType::kInt64, DType::kFloat32) == 0x1p-23);
}

TEST_CASE("the quantum is that of the stored types, times their scales") {
  trace::TensorEntry half = test::make_entry("a", {4}, trace::Kind::kOutput, DType::kFloat16);
  trace::TensorEntry single = test::make_entry("a", {4});
  const layout::ViewPtr a = layout::view_of(half);
  const layout::ViewPtr b = layout::view_of(single);
  CHECK(shared_quantum(*b, *b) == 0x1p-149);
  CHECK(shared_quantum(*b, *a) == 0x1p-24);
  trace::TensorEntry scaled = half;
  scaled.scale = -4;
  const layout::ViewPtr c = layout::view_of(scaled);
  CHECK(shared_quantum(*c, *b) == 0x1p-22);
  layout::View sum = *a;
  sum.how = layout::Sum{{a, c}, 0.5};
  CHECK(shared_quantum(sum, *b) == 0.5 * (0x1p-24 + 0x1p-22));
  layout::View mosaic = *a;
  mosaic.how = layout::Mosaic{{{{{0}, {4}}, c, {0}}, {{{4}, {4}}, b, {0}}}};
  CHECK(shared_quantum(mosaic, *b) == 0x1p-22);
  layout::View turned = *a;
  turned.how = layout::Transposed{c, {0}};
  CHECK(shared_quantum(turned, *b) == 0x1p-22);
}

TEST_CASE("values computed in fp16 and stored as f32 have the quantum of fp16") {
  trace::TensorEntry entry = test::make_entry("a", {4});
  entry.scale = 0.25;
  const auto quantum = [&entry](std::optional<DType> computed_in) {
    entry.computed_in = computed_in;
    return computed_quantum(*layout::view_of(entry));
  };
  CHECK(quantum(DType::kFloat16) == 0x1p-26);
  for (const auto other : {std::optional<DType>(), std::optional(DType::kBFloat16),
                           std::optional(DType::kFloat8E4M3)}) {
    CHECK(quantum(other) == 0x1p-151);
  }
}

TEST_CASE("copies of what an update is made of are at most one per cent apart") {
  using trace::Kind;
  for (const Kind kind : {Kind::kParam, Kind::kMainGrad, Kind::kGradNorm, Kind::kOptimizerState,
                          Kind::kParamAfterStep}) {
    CHECK(allowed_between_replicas(kind, 0.108, 1) == 0.01);
    CHECK(allowed_between_replicas(kind, 0.001, 1) == 0.001);
  }
  CHECK(allowed_between_replicas(Kind::kOutput, 0.108, 1) == 0.108);
}

TEST_CASE("the exact tolerance allows nothing") {
  CHECK(exact_tolerance().rule == Rule::kExact);
  CHECK(exact_tolerance().allowed_norm() == 0);
  CHECK(exact_tolerance().formula == "exactly equal");
}

TEST_CASE("rules have names for the report") {
  CHECK(rule_name(Rule::kExact) == "exact");
  CHECK(rule_name(Rule::kNoise) == "noise");
  CHECK(rule_name(Rule::kFallback) == "fallback");
}

TEST_CASE("a replay allows its difference exactly where every element is within its bound") {
  for (const double difference : {1e-300, 3e-7, 0.1, 7.0}) {
    for (const double ratio : {1e-9, 0.3, 1.0, 1 + 0x1p-52, 3.0, 1e6}) {
      const Tolerance made = replay_tolerance({difference, 1, ratio, "adamw"}, 0x1p-23);
      CAPTURE(difference, ratio);
      CHECK((difference <= made.allowed_norm()) == (ratio <= 1));
      CHECK(passing_multiplier(made, difference) == Approx(ratio));
    }
  }
}

TEST_CASE("a replay without difference allows its bounds, one that allows nothing nothing") {
  const Tolerance same = replay_tolerance({0, 0.25, 0, "sgd"}, 0x1p-23);
  CHECK(same.allowed_norm() == 0.25);
  CHECK(same.formula == "replay of sgd");
  CHECK(rule_name(same.rule) == "replay");
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(replay_tolerance({0.5, 0, infinity, "no update"}, 0x1p-23).allowed_norm() == 0);
}

// The norm of `n` equal numbers as eight lanes of single precision make it.
double norm_by_lanes(std::uint64_t n, float value) {
  std::array<float, 8> lanes{};
  for (std::uint64_t i = 0; i < n; ++i) lanes[i % lanes.size()] += value * value;
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return std::sqrt(sum);
}

TEST_CASE("the bound holds for squares added up one after the other in eight lanes") {
  constexpr double kSingle = 0x1p-24;
  for (const std::uint64_t n :
       {std::uint64_t{8}, std::uint64_t{1000}, std::uint64_t{100000}, std::uint64_t{2400000}}) {
    for (const float value : {1.1e-3F, 0.3F, 1.0F, 7.77F}) {
      const double exact = std::sqrt(static_cast<double>(n)) * value;
      const double off = std::abs(norm_by_lanes(n, value) - exact) / exact;
      INFO(n << " × " << value << ": " << off);
      CHECK(off <= norm_rounding(n, kSingle));
    }
  }
}

TEST_CASE("the bound of the measurements on the page") {
  CHECK(norm_rounding(10000, 1) == 316.5);
  CHECK(norm_rounding(0, 0x1p-24) == 0x1p-22);
}

}  // namespace
}  // namespace ttrace::judge::tolerance_test
