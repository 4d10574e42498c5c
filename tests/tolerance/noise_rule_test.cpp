#include "tolerance/noise_rule.h"

#include <cmath>
#include <limits>

#include "support/catch.h"

namespace ttrace::tolerance {
namespace {

TEST_CASE("many elements are allowed four times the largest noise and two epsilons") {
  const Tolerance tolerance = noise_tolerance({0.5, 2, 1}, 100, 0x1p-7, 1'000'000);
  CHECK(tolerance.rule == Rule::kNoise);
  CHECK(tolerance.epsilon == 0x1p-7);
  CHECK(tolerance.multiplier == 4);
  CHECK(tolerance.unit_norm == 2);
  CHECK(tolerance.floor_norm == 2 * 0x1p-7 * 100);
  CHECK(tolerance.allowed_norm() == 4 * 2 + 2 * 0x1p-7 * 100);
  CHECK(tolerance.formula == "4·noise + 2·ε");
}

TEST_CASE("few elements are allowed more and the formula says so") {
  // sqrt(F(0.99; 1, 3)) = 5.84
  const Tolerance scalar = noise_tolerance({1, 1, 1}, 10, 0x1p-23, 1);
  CHECK(scalar.unit_norm == Catch::Approx(std::sqrt(34.116221564529804)).epsilon(1e-9));
  CHECK(scalar.formula == "4·5.84·noise + 11.7·ε");
  CHECK(scalar.floor_norm == Catch::Approx(2 * std::sqrt(34.116221564529804) * 0x1p-23 * 10));
  const Tolerance widened = noise_tolerance({1}, 10, 0x1p-23, 32);
  CHECK(widened.unit_norm == Catch::Approx(std::sqrt(2.3181184231766488)).epsilon(1e-9));
}

TEST_CASE("the floor is widened eight times at most") {
  const Tolerance scalar = noise_tolerance({0}, 10, 0x1p-23, 1);
  CHECK(scalar.floor_norm == 2 * 8 * 0x1p-23 * 10);
  CHECK(scalar.formula == "4·63.7·noise + 16·ε");
}

TEST_CASE("without noise only the floor is allowed") {
  const Tolerance tolerance = noise_tolerance({0, 0}, 8, 0.25, 5000);
  CHECK(tolerance.unit_norm == 0);
  CHECK(tolerance.allowed_norm() == 4);
  const Tolerance zero = noise_tolerance({0}, 0, 0.25, 5000);
  CHECK(zero.allowed_norm() == 0);  // exactly zero must be exactly zero
}

TEST_CASE("infinite noise allows anything") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(noise_tolerance({1, infinity}, 8, 0.25, 5000).allowed_norm() == infinity);
}

}  // namespace
}  // namespace ttrace::tolerance
