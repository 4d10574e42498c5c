#include <cmath>

#include "judge/noise_rule.h"
#include "support/catch.h"

namespace ttrace::judge {
namespace {

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

}  // namespace
}  // namespace ttrace::judge
