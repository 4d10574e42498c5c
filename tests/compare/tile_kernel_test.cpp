#include "compare/tile_kernel.h"

#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "compare/naive_sums.h"
#include "property/random.h"

namespace ttrace::compare {
namespace {

using test::naive_sums;
using test::near;
using test::Random;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_CASE("tile sums agree with extended precision at every length") {
  Random random(7);
  for (const std::size_t count : {0U, 1U, 2U, 31U, 32U, 33U, 63U, 64U, 65U, 1000U, 4095U, 4096U}) {
    for (const double spread : {1.0, 1e-6, 1e9}) {
      CAPTURE(count, spread);
      const std::vector<double> r = random.values(count);
      std::vector<double> c = random.values(count);
      for (std::size_t i = 0; i < count; ++i) c[i] = r[i] + spread * c[i];
      const TileSums sums = sum_tile(r.data(), c.data(), count);
      const test::NaiveSums naive = naive_sums(r, c);
      CHECK(near(sums.d2, naive.d2, naive.d2));
      CHECK(near(sums.d, naive.d, naive.absolute_d));
      CHECK(near(sums.r2, naive.r2, naive.r2));
      CHECK(near(sums.c2, naive.c2, naive.c2));
      CHECK(near(sums.rc, naive.rc, naive.absolute_rc));
      CHECK(sums.largest == naive.largest);
      CHECK(sums.largest_at == naive.largest_at);
      CHECK(sums.unequal == naive.unequal);
      const DistanceSums distance = sum_distance(r.data(), c.data(), count);
      CHECK(near(distance.d2, naive.d2, naive.d2));
      CHECK(distance.largest == naive.largest);
    }
  }
}

// Σ f(i) as documented: element i to lane i mod 32, the lanes halved until one is left.
template <typename Term>
double lane_sum(std::size_t count, Term term) {
  std::array<double, 32> lanes{};
  for (std::size_t i = 0; i < count; ++i) {
    // Through memory, so that no compiler keeps more bits or fuses the operations.
    volatile double value = term(i);
    lanes[i % 32] += value;
  }
  for (std::size_t width = 16; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

TEST_CASE("tile sums are the documented lane sums to the last bit") {
  Random random(8);
  for (const std::size_t count : {1U, 31U, 33U, 1000U, 4095U, 4096U}) {
    CAPTURE(count);
    const std::vector<double> r = random.values(count);
    const std::vector<double> c = random.values(count);
    const TileSums sums = sum_tile(r.data(), c.data(), count);
    CHECK(sums.d == lane_sum(count, [&](std::size_t i) { return c[i] - r[i]; }));
    CHECK(sums.r2 == lane_sum(count, [&](std::size_t i) { return r[i] * r[i]; }));
    CHECK(sums.c2 == lane_sum(count, [&](std::size_t i) { return c[i] * c[i]; }));
    CHECK(sums.rc == lane_sum(count, [&](std::size_t i) { return r[i] * c[i]; }));
    const double d2 = lane_sum(count, [&](std::size_t i) {
      volatile double d = c[i] - r[i];
      return d * d;
    });
    CHECK(sums.d2 == d2);
    CHECK(sum_distance(c.data(), r.data(), count).d2 == d2);
  }
}

TEST_CASE("the largest difference is the first of equal ones") {
  std::vector<double> r(100, 0.0);
  std::vector<double> c(100, 0.0);
  c[70] = 2;
  c[41] = -2;
  c[99] = 2;
  c[3] = 1;
  const TileSums sums = sum_tile(r.data(), c.data(), 100);
  CHECK(sums.largest == 2);
  CHECK(sums.largest_at == 41);
  CHECK(sums.unequal == 4);
}

TEST_CASE("equal tiles have no difference and signed zeros are equal") {
  const std::vector<double> r{1.5, -0.0, 0.0, 3};
  const std::vector<double> c{1.5, 0.0, -0.0, 3};
  const TileSums sums = sum_tile(r.data(), c.data(), 4);
  CHECK(sums.d2 == 0);
  CHECK(sums.largest == 0);
  CHECK(sums.unequal == 0);
}

TEST_CASE("differences whose squares underflow are seen") {
  const std::vector<double> r{0, 1e-200, 0};
  const std::vector<double> c{0, 3e-200, 5e-324};
  const TileSums sums = sum_tile(r.data(), c.data(), 3);
  CHECK(sums.d2 == 0);
  CHECK(sums.largest == 3e-200 - 1e-200);
  CHECK(sums.largest_at == 1);
  CHECK(sums.unequal == 2);
}

TEST_CASE("one non-finite value anywhere is found") {
  for (const std::size_t count : {1U, 31U, 32U, 33U, 200U, 4096U}) {
    std::vector<double> values(count, std::numeric_limits<double>::max());
    CAPTURE(count);
    CHECK(all_finite(values.data(), count));
    for (const double odd : {kNan, kInf, -kInf}) {
      std::size_t found = 0;
      for (std::size_t at = 0; at < count; ++at) {
        const double before = std::exchange(values[at], odd);
        found += all_finite(values.data(), count) ? 0 : 1;
        values[at] = before;
      }
      CHECK(found == count);
    }
  }
  CHECK(all_finite(nullptr, 0));
}

TEST_CASE("infinities of both signs do not hide each other") {
  std::vector<double> values(64, 0.0);
  values[0] = kInf;
  values[32] = -kInf;
  CHECK_FALSE(all_finite(values.data(), values.size()));
}

}  // namespace
}  // namespace ttrace::compare
