#include "measure/cpu/tiles.h"

#include <limits>
#include <utility>
#include <vector>

#include "measure/cpu/cpu_backend.h"
#include "measure/naive_sums.h"
#include "property/random.h"
#include "support/catch.h"

namespace ttrace::measure::tiles_test {
namespace {

using test::naive_sums;
using test::near;
using test::Random;

// In tiles, as the CPU backend adds up the distance of replicas.
double squared_distance_of(std::span<const double> a, std::span<const double> b) {
  double squares = 0;
  for (std::size_t at = 0; at < a.size(); at += kTileElements) {
    const std::size_t count = std::min(kTileElements, a.size() - at);
    squares = add_squared_distance(a.subspan(at, count), b.subspan(at, count), squares);
  }
  return squares;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_CASE("box sums agree with extended precision at every length") {
  Random random(17);
  for (const std::size_t count : {0U, 1U, 31U, 32U, 33U, 4095U, 4096U, 4097U, 8192U, 10000U}) {
    CAPTURE(count);
    const std::vector<double> r = random.values(count);
    std::vector<double> c = random.values(count);
    for (std::size_t i = 0; i < count; ++i) c[i] = r[i] + 1e-3 * c[i];
    const TileStats stats = box_stats(tensor::whole({count}), r, c);
    const test::NaiveSums naive = naive_sums(r, c);
    CHECK(stats.elements == count);
    CHECK(stats.finite == count);
    CHECK(near(stats.sum_d2, naive.d2, naive.d2));
    CHECK(near(stats.sum_d, naive.d, naive.absolute_d));
    CHECK(near(stats.sum_r2, naive.r2, naive.r2));
    CHECK(near(stats.sum_c2, naive.c2, naive.c2));
    CHECK(near(stats.sum_rc, naive.rc, naive.absolute_rc));
    CHECK(stats.unequal == naive.unequal);
    CHECK(stats.largest.has_value() == (count > 0));
    if (stats.largest) {
      CHECK(stats.largest->difference == naive.largest);
      CHECK(stats.largest->at == tensor::Shape{naive.largest_at});
      CHECK(stats.largest->reference == r[naive.largest_at]);
      CHECK(stats.largest->candidate == c[naive.largest_at]);
    }
    CHECK(near(squared_distance_of(r, c), naive.d2, naive.d2));
  }
}

TEST_CASE("the largest difference has coordinates of the tensor") {
  // Rows 5 and 6, columns 100 to 3099: the second tile starts in the second row.
  const tensor::Box box{{5, 100}, {2, 3000}};
  std::vector<double> r(6000, 1.0);
  std::vector<double> c(6000, 1.0);
  c[4500] = 3;
  c[10] = 2;
  c[5000] = -1;  // as large, but later
  const TileStats stats = box_stats(box, r, c);
  REQUIRE(stats.largest.has_value());
  CHECK(stats.largest->at == tensor::Shape{6, 1600});
  CHECK(stats.largest->difference == 2);
  CHECK(stats.largest->candidate == 3);
  CHECK(stats.unequal == 3);
}

TEST_CASE("equal boxes have no largest difference") {
  const std::vector<double> same{1, -0.0, 5e-324};
  const TileStats stats = box_stats(tensor::whole({3}), same, std::vector<double>{1, 0, 5e-324});
  CHECK_FALSE(stats.largest.has_value());
  CHECK(stats.unequal == 0);
  CHECK(stats.sum_d2 == 0);
}

struct Classified {
  double reference;
  double candidate;
  bool equal;
};

TEST_CASE("non-finite values are classified before any arithmetic") {
  const Classified cases[] = {{kNan, kNan, true},   {kInf, kInf, true},  {-kInf, -kInf, true},
                              {kNan, 1, false},     {1, kNan, false},    {kInf, -kInf, false},
                              {-kInf, kInf, false}, {kInf, 1, false},    {1, -kInf, false},
                              {kNan, kInf, false},  {-kInf, kNan, false}};
  for (const Classified& pair : cases) {
    CAPTURE(pair.reference, pair.candidate);
    const std::vector<double> r{2, pair.reference, 3};
    const std::vector<double> c{4, pair.candidate, 3};
    const TileStats stats = box_stats({{7, 20}, {1, 3}}, r, c);
    CHECK(stats.elements == 3);
    CHECK(stats.finite == 2);
    CHECK(stats.nonfinite_reference == (std::isfinite(pair.reference) ? 0 : 1));
    CHECK(stats.nonfinite_candidate == (std::isfinite(pair.candidate) ? 0 : 1));
    CHECK(stats.nonfinite_equal == (pair.equal ? 1 : 0));
    CHECK(stats.nonfinite_different == (pair.equal ? 0 : 1));
    CHECK(stats.first_nonfinite_difference.has_value() == !pair.equal);
    if (!pair.equal) CHECK(*stats.first_nonfinite_difference == tensor::Shape{7, 21});
    // The sums have the two finite pairs and nothing of the third.
    CHECK(stats.sum_d2 == 4);
    CHECK(stats.sum_d == 2);
    CHECK(stats.sum_r2 == 13);
    CHECK(stats.sum_c2 == 25);
    CHECK(stats.sum_rc == 17);
    CHECK(stats.unequal == (pair.equal ? 1 : 2));
    REQUIRE(stats.largest.has_value());
    CHECK(stats.largest->at == tensor::Shape{7, 20});
    CHECK(squared_distance_of(r, c) == (pair.equal ? 4 : kInf));
  }
}

TEST_CASE("the first non-finite difference of all tiles is kept") {
  std::vector<double> r(10000, 0.0);
  std::vector<double> c(10000, 0.0);
  c[9000] = kNan;
  c[5000] = kInf;
  c[9999] = kNan;
  r[100] = c[100] = kNan;  // equal: no difference
  const TileStats stats = box_stats(tensor::whole({10000}), r, c);
  CHECK(stats.first_nonfinite_difference == tensor::Shape{5000});
  CHECK(stats.nonfinite_different == 3);
  CHECK(stats.nonfinite_equal == 1);
  CHECK(stats.finite == 9996);
}

TEST_CASE("a box of nothing but NaN has empty sums") {
  const std::vector<double> nans(50, kNan);
  const TileStats stats = box_stats(tensor::whole({50}), nans, nans);
  CHECK(stats.finite == 0);
  CHECK(stats.nonfinite_equal == 50);
  CHECK(stats.sum_r2 == 0);
  CHECK(stats.unequal == 0);
  CHECK_FALSE(stats.largest.has_value());
  CHECK(squared_distance_of(nans, nans) == 0);
}

TEST_CASE("a non-finite distance does not depend on where it is") {
  for (const std::size_t at : {0U, 4095U, 4096U, 9999U}) {
    CAPTURE(at);
    std::vector<double> a(10000, 1.0);
    const std::vector<double> b(10000, 1.5);
    CHECK(squared_distance_of(a, b) == 2500);
    a[at] = kNan;
    CHECK(squared_distance_of(a, b) == kInf);
    CHECK(squared_distance_of(b, a) == kInf);
  }
}

TEST_CASE("distances agree with extended precision at every length") {
  test::Random random(7);
  for (const std::size_t count : {0U, 1U, 31U, 32U, 33U, 1000U, 4096U}) {
    CAPTURE(count);
    const std::vector<double> a = random.values(count);
    const std::vector<double> b = random.values(count);
    const test::NaiveSums naive = test::naive_sums(a, b);
    CHECK(test::near(sum_squared_distance(a.data(), b.data(), count), naive.d2, naive.d2));
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
}  // namespace ttrace::measure::tiles_test
