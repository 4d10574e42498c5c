#include <limits>
#include <utility>
#include <vector>

#include "measure/cpu/add_tile.h"
#include "measure/naive_sums.h"
#include "property/random.h"
#include "support/catch.h"

namespace ttrace::measure {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_CASE("distances agree with extended precision at every length") {
  test::Random random(7);
  for (const std::size_t count : {0U, 1U, 31U, 32U, 33U, 1000U, 4096U}) {
    CAPTURE(count);
    const std::vector<double> a = random.values(count);
    const std::vector<double> b = random.values(count);
    const test::NaiveSums naive = test::naive_sums(a, b);
    const DistanceSums distance = sum_distance(a.data(), b.data(), count);
    CHECK(test::near(distance.d2, naive.d2, naive.d2));
    CHECK(distance.largest == naive.largest);
  }
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
}  // namespace ttrace::measure
