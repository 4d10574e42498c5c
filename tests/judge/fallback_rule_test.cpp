#include "judge/fallback_rule.h"

#include <cmath>
#include <limits>

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::judge::fallback_rule_test {
namespace {

using trace::Kind;

TEST_CASE("the layer is the first whole number among the parts of a name") {
  CHECK(layer_number("layers.3.mlp") == std::uint64_t{3});
  CHECK(layer_number("decoder.layers.12.experts.7.fc1") == std::uint64_t{12});
  CHECK(layer_number("0") == std::uint64_t{0});
  CHECK(layer_number("a.007") == std::uint64_t{7});
  CHECK(layer_number("h.99999") == std::uint64_t{99999});
}

TEST_CASE("parts that only look like numbers are no layers") {
  for (const char* name : {"", "embedding", "layer3.mlp", "layers.3a", "layers.-3", "layers.+3",
                           "layers. 3", "layers.100000", "layers.18446744073709551616", "a..b"}) {
    CAPTURE(name);
    CHECK_FALSE(layer_number(name).has_value());
  }
}

TEST_CASE("layers are counted from the largest number") {
  CHECK(layer_count({}) == 1);
  CHECK(layer_count({test::make_entry("embedding", {})}) == 1);
  CHECK(layer_count({test::make_entry("layers.4.mlp", {}), test::make_entry("layers.11", {}),
                     test::make_entry("head", {})}) == 12);
}

std::uint64_t depth(const char* name, Kind kind) {
  return error_depth(test::make_key(name, kind), 12);
}

TEST_CASE("an activation has passed the layers before it and its own") {
  CHECK(depth("layers.0.mlp", Kind::kOutput) == 1);
  CHECK(depth("layers.11.mlp", Kind::kInput) == 12);
  CHECK(depth("head", Kind::kOutput) == 12);
  CHECK(depth("layers.50", Kind::kOutput) == 12);  // no deeper than the model
  CHECK(depth("loss", Kind::kLoss) == 12);
  CHECK(depth("layers.0.aux", Kind::kScalar) == 12);
}

TEST_CASE("a gradient has passed all layers and those above it") {
  for (const Kind kind : {Kind::kGradOutput, Kind::kGradInput, Kind::kParamGrad, Kind::kMainGrad,
                          Kind::kOptimizerState, Kind::kParamAfterStep}) {
    CAPTURE(trace::kind_name(kind));
    CHECK(depth("layers.0.w", kind) == 24);
    CHECK(depth("layers.11.w", kind) == 13);
    CHECK(depth("embedding", kind) == 24);
    CHECK(depth("layers.50.w", kind) == 12);
  }
  CHECK(depth("grad_norm", Kind::kGradNorm) == 24);
}

TEST_CASE("what the step starts from has passed nothing") {
  for (const Kind kind : {Kind::kParam, Kind::kBuffer, Kind::kIndex}) {
    CHECK(depth("layers.5.w", kind) == 0);
  }
}

TEST_CASE("the typical size of a kind is a median of root mean squares") {
  TypicalSize typical;
  CHECK(typical.rms(Kind::kOutput) == 0);
  typical.add(Kind::kOutput, 10, 100);   // 1
  typical.add(Kind::kOutput, 500, 100);  // 50
  typical.add(Kind::kOutput, 6, 4);      // 3
  typical.add(Kind::kInput, 7, 1);
  CHECK(typical.rms(Kind::kOutput) == 3);
  CHECK(typical.rms(Kind::kInput) == 7);
  CHECK(typical.rms(Kind::kLoss) == 0);
}

TEST_CASE("tensors without a size do not count for the typical one") {
  TypicalSize typical;
  typical.add(Kind::kOutput, 0, 0);
  typical.add(Kind::kOutput, std::numeric_limits<double>::infinity(), 4);
  typical.add(Kind::kOutput, std::nan(""), 4);
  CHECK(typical.rms(Kind::kOutput) == 0);
  typical.add(Kind::kOutput, 4, 4);
  CHECK(typical.rms(Kind::kOutput) == 2);
}

TEST_CASE("the fallback is the theorem's bound with the size of the kind as floor") {
  const Tolerance tolerance = fallback_tolerance(100, 0x1p-23, 16, 2, 0.5);
  CHECK(tolerance.rule == Rule::kFallback);
  CHECK(tolerance.epsilon == 0x1p-23);
  CHECK(tolerance.multiplier == 24);
  CHECK(tolerance.floor_norm == 0);
  // 24 · 1.03² · 2^-23 · (100 + 4 · 0.5)
  CHECK(tolerance.allowed_norm() == Catch::Approx(24 * 1.0609 * 0x1p-23 * 102).epsilon(1e-14));
  CHECK(tolerance.formula == "24·1.03^2·ε");
}

TEST_CASE("types narrower than f32 are summed in f32 and allowed less") {
  for (const bool fp8 : {false, true}) {
    CHECK(fallback_multiplier(0x1p-52, fp8) == 24);
    CHECK(fallback_multiplier(0x1p-23, fp8) == 24);
  }
  CHECK(fallback_multiplier(0x1p-10, false) == 6);
  CHECK(fallback_multiplier(0x1p-7, false) == 6);
}

// Learned from healthy runs of 2 to 8 layers with emulated fp8: 3.2 times what bf16 is allowed.
TEST_CASE("recipes with fp8 are allowed one of its roundings") {
  CHECK(fallback_multiplier(0x1p-7, true) * 0x1p-7 == 0x1p-3);
}

// Learned from a healthy f32 run with AdamW: at 53 times its limit in the second step, whose
// parameters were 5e-5 apart.
TEST_CASE("what the parameters were apart when the step began is allowed on top") {
  const Tolerance tolerance = fallback_tolerance(100, 0x1p-23, 16, 2, 0.5, {false, 0.01});
  CHECK(tolerance.unit_norm == Catch::Approx(1.0609 * 0x1p-23 * 102).epsilon(1e-14));
  CHECK(tolerance.floor_norm == Catch::Approx(4 * 1.0609 * 0.01 * 102).epsilon(1e-14));
  CHECK(tolerance.formula == "24·1.03^2·ε + 4·0.01 of the parameters");
}

TEST_CASE("a fallback of depth zero grows nothing") {
  CHECK(fallback_tolerance(100, 0.5, 16, 0, 0).allowed_norm() == 300);
  // A tensor that cancels to zero is judged on the scale of its kind.
  CHECK(fallback_tolerance(0, 0.5, 16, 0, 3).allowed_norm() == 36);
  CHECK(fallback_tolerance(0, 0.5, 16, 0, 0).allowed_norm() == 0);
}

TEST_CASE("the fallback allows what storing rounds away") {
  CHECK(fallback_tolerance(0, 0x1p-10, 16, 0, 0, {}, 0x1p-24).allowed_norm() == 2 * 0x1p-24 * 4);
}

}  // namespace
}  // namespace ttrace::judge::fallback_rule_test
