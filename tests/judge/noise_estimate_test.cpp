#include <cmath>
#include <limits>

#include "judge/noise_rule.h"
#include "support/catch.h"

namespace ttrace::judge {
namespace {

using measure::Grid;
using measure::Noise;
using Doubles = std::vector<double>;

TEST_CASE("cells are held in units of an even spread, three digits, rounded up") {
  const Noise noise{10, {3, 5}, {1, 2}, {3, 4}, 0};
  const NoiseEstimate estimate = estimate_of(noise, Grid({4}, {2}));
  // 3 / (5·√½) = 0.84853, 4 / (5·√½) = 1.13137
  CHECK(estimate.cells == Doubles{0.849, 1.14});
  CHECK(estimate.norm() == 5);
  CHECK(estimate.largest_value() == 2);
}

TEST_CASE("numbers are rounded up to the decimal fraction that a file shows") {
  CHECK(three_digits_up(0.84853) == 0.849);
  CHECK(three_digits_up(1.131) == 1.14);
  CHECK(three_digits_up(123.4) == 124);
  CHECK(three_digits_up(12340) == 12400);
  CHECK(three_digits_up(0.0100001) == 0.0101);
  CHECK(three_digits_up(0) == 0);
  CHECK(three_digits_up(std::numeric_limits<double>::infinity()) ==
        std::numeric_limits<double>::infinity());
}

TEST_CASE("the noise of a part adds up over its cells") {
  const NoiseEstimate estimate = estimate_of({10, {5}, {1}, {3, 4}, 0}, Grid({4}, {2}));
  CHECK(noise_within(estimate, {{{0}, {2}}}).norm == Catch::Approx(3).epsilon(1e-2));
  CHECK(noise_within(estimate, {{{0}, {4}}}).norm == Catch::Approx(5).epsilon(1e-2));
  // Half of each cell.
  CHECK(noise_within(estimate, {{{1}, {2}}}).norm == Catch::Approx(5 / std::sqrt(2)).epsilon(1e-2));
  CHECK(noise_within(estimate, {{{0}, {1}}, {{3}, {1}}}).norm ==
        Catch::Approx(5 / std::sqrt(2)).epsilon(1e-2));
  CHECK(noise_of_all(estimate).norm == 5);
}

TEST_CASE("noise in few cells is told as a small spread") {
  const NoiseEstimate even = estimate_of({10, {2}, {1}, {1, 1, 1, 1}, 0}, Grid({8}, {4}));
  CHECK(noise_of_all(even).spread == Catch::Approx(1));
  const NoiseEstimate one = estimate_of({10, {2}, {1}, {0, 2, 0, 0}, 0}, Grid({8}, {4}));
  CHECK(noise_of_all(one).spread == Catch::Approx(0.25));
  CHECK(freedom(noise_of_all(one), 8) == 2);
  CHECK(noise_within(one, {{{2}, {2}}}).spread == Catch::Approx(1));
}

TEST_CASE("without cells the noise lies evenly") {
  const NoiseEstimate estimate{10, {4}, {1}, Grid({16}, {1}), {}};
  CHECK(noise_within(estimate, {{{3}, {4}}}).norm == 2);
  CHECK(noise_within(estimate, {{{3}, {4}}}).spread == 1);
}

TEST_CASE("noise that is zero or infinite is so in every part") {
  const double infinity = std::numeric_limits<double>::infinity();
  const NoiseEstimate none = estimate_of({10, {0}, {0}, {0, 0}, 0}, Grid({4}, {2}));
  CHECK(none.cells.empty());
  CHECK(noise_within(none, {{{0}, {1}}}).norm == 0);
  const NoiseEstimate wild =
      estimate_of({10, {1, infinity}, {0, 0}, {1, infinity}, 0}, Grid({4}, {2}));
  CHECK(wild.cells.empty());
  CHECK(noise_within(wild, {{{0}, {1}}}).norm == infinity);
}

}  // namespace
}  // namespace ttrace::judge
