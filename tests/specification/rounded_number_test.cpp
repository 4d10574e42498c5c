#include "specification/primitives/rounded_number.h"

#include <cstdint>
#include <numbers>

#include "support/catch.h"

namespace ttrace::specification::rounded_number_test {
namespace {

constexpr double kUnit = 0x1p-20;

// The operations of a formula in the order in which they draw their random numbers.
class ByHand {
 public:
  double round(double value, double roundings = 1) {
    return value * (1 + roundings * kUnit * noise_.at((7ULL << 5U) + drawn_++));
  }
  double function(double value) { return round(value, kFunctionRoundings); }

 private:
  Noise noise_{3};
  std::uint64_t drawn_ = 0;
};

template <typename F>
double evaluated(F formula) {
  const Noise noise(3);
  RoundingSource source(noise, kUnit, 7);
  return formula(RoundedNumber(0.7, source), RoundedNumber(0.3, source)).value();
}

TEST_CASE("formulas draw their random numbers in one order, whatever the compiler") {
  const double x = 0.7;
  SECTION("gelu") {
    ByHand by_hand;
    const double scaled = by_hand.round(std::numbers::sqrt2 / 2 * x);
    const double erf = error_function(scaled) + by_hand.round(1, kErfRoundings) - 1;
    const double right = by_hand.round(1.0 + erf);
    const double left = by_hand.round(0.5 * x);
    CHECK(evaluated([](auto a, auto) { return gelu(a); }) == by_hand.round(left * right));
  }
  SECTION("the tanh of a gelu's slope") {
    const double c = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    ByHand by_hand;
    const double cube = by_hand.round(by_hand.round(by_hand.round(kGeluCubic * x) * x) * x);
    const double t =
        by_hand.function(hyperbolic_tangent(by_hand.round(c * by_hand.round(x + cube))));
    const double square = by_hand.round(by_hand.round(3 * kGeluCubic * x) * x);
    const double inner = by_hand.round(c * by_hand.round(1.0 + square));
    const double slope = by_hand.round(1.0 - by_hand.round(t * t));
    const double half = by_hand.round(0.5 * x);
    const double moved = by_hand.round(by_hand.round(half * slope) * inner);
    const double normal = by_hand.round(0.5 * by_hand.round(1.0 + t));
    CHECK(evaluated([](auto a, auto) { return gelu_tanh_slope(a); }) ==
          by_hand.round(normal + moved));
  }
  SECTION("a sigmoid's gradient") {
    ByHand by_hand;
    const double rest = by_hand.round(1.0 - 0.3);
    const double part = by_hand.round(x * 0.3);
    CHECK(evaluated([](auto a, auto b) { return sigmoid_slope_times(a, b); }) ==
          by_hand.round(part * rest));
  }
}

}  // namespace
}  // namespace ttrace::specification::rounded_number_test
