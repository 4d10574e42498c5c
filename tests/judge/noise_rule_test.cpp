#include "judge/noise_rule.h"

#include <cmath>
#include <limits>

#include "support/catch.h"

namespace ttrace::judge {
namespace {

TEST_CASE("many elements are allowed four times the largest noise and two epsilons") {
  const Tolerance tolerance = noise_tolerance({2, 3, 100, 1'000'000, 1'000'000}, 0x1p-7);
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
  const Tolerance scalar = noise_tolerance({1, 3, 10, 1, 1}, 0x1p-23);
  CHECK(scalar.unit_norm == Catch::Approx(std::sqrt(34.116221564529804)).epsilon(1e-9));
  CHECK(scalar.formula == "4·5.84·noise + 11.7·ε");
  CHECK(scalar.floor_norm == Catch::Approx(2 * std::sqrt(34.116221564529804) * 0x1p-23 * 10));
  const Tolerance widened = noise_tolerance({1, 1, 10, 32, 32}, 0x1p-23);
  CHECK(widened.unit_norm == Catch::Approx(std::sqrt(2.3181184231766488)).epsilon(1e-9));
}

TEST_CASE("the floor is widened eight times at most") {
  const Tolerance scalar = noise_tolerance({0, 1, 10, 1, 1}, 0x1p-23);
  CHECK(scalar.floor_norm == 2 * 8 * 0x1p-23 * 10);
  CHECK(scalar.formula == "4·63.7·noise + 16·ε");
}

TEST_CASE("without noise only the floor is allowed") {
  const Tolerance tolerance = noise_tolerance({0, 2, 8, 5000, 5000}, 0.25);
  CHECK(tolerance.unit_norm == 0);
  CHECK(tolerance.allowed_norm() == 4);
  const Tolerance zero = noise_tolerance({0, 1, 0, 5000, 5000}, 0.25);
  CHECK(zero.allowed_norm() == 0);  // exactly zero must be exactly zero
}

TEST_CASE("only independent numbers count as many") {
  const Tolerance narrow = noise_tolerance({1, 3, 10, 4096, 1024}, 0x1p-23);
  const Tolerance few = noise_tolerance({1, 3, 10, 1024, 1024}, 0x1p-23);
  CHECK(narrow.allowed_norm() == few.allowed_norm());
  CHECK(narrow.allowed_norm() > noise_tolerance({1, 3, 10, 4096, 4096}, 0x1p-23).allowed_norm());
}

TEST_CASE("a policy's numbers take the place of the usual ones") {
  const Tolerance tolerance = noise_tolerance({2, 3, 100, 10000, 10000}, 0.25, {6, 1, 0.5});
  CHECK(tolerance.allowed_norm() == 6 * 2 + 0.25 * 100 + 0.5 * 100);
  CHECK(tolerance.formula == "6·noise + 1·ε + 0.5·√n");
}

TEST_CASE("what storing rounds away is allowed, however small the tensor is") {
  // 100 fp16 subnormals, one quantum apart each.
  NoiseConstants half;
  half.quantum = 0x1p-24;
  const Tolerance tolerance = noise_tolerance({0, 3, 1e-7, 10000, 10000}, 0x1p-10, half);
  CHECK(tolerance.allowed_norm() == 2 * 0x1p-10 * 1e-7 + 2 * 0x1p-24 * 100);
  CHECK(tolerance.formula == "4·noise + 2·ε + 2·quantum");
  CHECK(noise_tolerance({0, 3, 1e3, 10000, 10000}, 0x1p-10, half).formula == "4·noise + 2·ε");
  half.floor = 0;
  CHECK(noise_tolerance({0, 3, 1e-7, 10000, 10000}, 0x1p-10, half).allowed_norm() == 0);
}

TEST_CASE("a scalar's floor is that of its stored type, its noise being known") {
  // A loss in bf16 with a noise of 7e-4: 5 % off was allowed, by a floor of 11 %.
  const NoisySlice loss{7e-4, 3, 1, 1, 1};
  CHECK(noise_tolerance(loss, 0x1p-7).allowed_norm() > 0.1);
  const Tolerance tolerance = scalar_tolerance(loss, 0x1p-7, 0x1p-23);
  CHECK(tolerance.allowed_norm() < 0.02);
  CHECK(tolerance.allowed_norm() > 4 * 5 * 7e-4);
  CHECK(tolerance.epsilon == 0x1p-7);
  CHECK(tolerance.rule == Rule::kNoise);
  // Stored in bf16 it is rounded to that.
  const Tolerance narrow = scalar_tolerance(loss, 0x1p-7, 0x1p-7);
  CHECK(narrow.floor_norm == Catch::Approx(2 * 0x1p-7));
  // In f32 nothing changes.
  CHECK(scalar_tolerance(loss, 0x1p-23, 0x1p-23).allowed_norm() ==
        noise_tolerance(loss, 0x1p-23).allowed_norm());
}

TEST_CASE("infinite noise allows anything") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(noise_tolerance({infinity, 2, 8, 5000, 5000}, 0.25).allowed_norm() == infinity);
}

}  // namespace
}  // namespace ttrace::judge
