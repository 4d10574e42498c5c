#include "judge/noise_rule.h"

#include <cmath>
#include <limits>

#include "support/catch.h"

namespace ttrace::judge::noise_rule_test {
namespace {

using measure::Grid;
using measure::MeasuredNoise;
using Doubles = std::vector<double>;

TEST_CASE("cells are held in units of an even spread, three digits, rounded up") {
  const MeasuredNoise noise{10, {3, 5}, {1, 2}, {3, 4}, 0};
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

TEST_CASE("F quantiles agree with tables") {
  struct Known {
    double p, d1, d2, quantile;
  };
  // scipy.stats.f.ppf, confirmed to these digits with mpmath at 40 digits.
  for (const Known& known :
       {Known{0.99, 1, 1, 4052.1806954768291}, Known{0.99, 1, 2, 98.50251256281407},
        Known{0.99, 1, 3, 34.116221564529804}, Known{0.99, 2, 6, 10.924766500838337},
        Known{0.99, 5, 5, 10.967020650907996}, Known{0.99, 10, 30, 2.9790935636338832},
        Known{0.99, 32, 32, 2.3181184231766488}, Known{0.99, 32, 96, 1.8783471176856438},
        Known{0.99, 100, 300, 1.4410413783946322}, Known{0.99, 1000, 3000, 1.1258620791753613},
        Known{0.99, 4095, 4095, 1.0754290460581841}, Known{0.99, 4095, 12285, 1.0607442680232205},
        Known{0.95, 3, 7, 4.3468313999078181}, Known{0.5, 4, 9, 0.90580385439682530},
        Known{0.01, 6, 6, 0.11811778821876856}, Known{0.999, 2, 200, 7.1519305237606417}}) {
    CAPTURE(known.p, known.d1, known.d2);
    CHECK(f_quantile(known.p, known.d1, known.d2) ==
          Catch::Approx(known.quantile).epsilon(1e-9).margin(0));
  }
}

TEST_CASE("F quantiles have their closed forms and symmetry") {
  // d1 = d2 = 2: F(x) = x / (1 + x).
  for (const double p : {0.01, 0.3, 0.5, 0.9, 0.99}) {
    CAPTURE(p);
    CHECK(f_quantile(p, 2, 2) == Catch::Approx(p / (1 - p)).epsilon(1e-9));
    CHECK(f_quantile(p, 3, 8) == Catch::Approx(1 / f_quantile(1 - p, 8, 3)).epsilon(1e-8));
  }
  CHECK(f_quantile(0.5, 7, 7) == Catch::Approx(1).epsilon(1e-9));
}

TEST_CASE("the widening is the root of the quantile for few elements") {
  CHECK(small_sample_factor(1, 1) == Catch::Approx(std::sqrt(4052.1806954768291)));
  CHECK(small_sample_factor(1, 3) == Catch::Approx(std::sqrt(34.116221564529804)));
  CHECK(small_sample_factor(32, 3) == Catch::Approx(std::sqrt(1.8783471176856438)));
}

TEST_CASE("the widening falls with elements and with runs and never below one") {
  for (const std::size_t runs : {1U, 2U, 3U, 10U}) {
    double before = small_sample_factor(1, runs);
    for (std::uint64_t elements = 2; elements <= 5000; elements += 1 + elements / 8) {
      CAPTURE(runs, elements);
      const double here = small_sample_factor(elements, runs);
      CHECK(here <= before);
      CHECK(here >= 1);
      CHECK(small_sample_factor(elements, runs + 1) <= here);
      before = here;
    }
  }
}

TEST_CASE("many elements and none are not widened") {
  CHECK(small_sample_factor(4095, 1) > 1);
  CHECK(small_sample_factor(4095, 1) < 1.04);
  CHECK(small_sample_factor(4096, 1) == 1);
  CHECK(small_sample_factor(UINT64_MAX, 3) == 1);
  CHECK(small_sample_factor(0, 3) == 1);
}

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

}  // namespace ttrace::judge::noise_rule_test
