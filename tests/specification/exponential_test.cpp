#include "specification/primitives/exponential.h"

#include <cmath>
#include <limits>
#include <vector>

#include "base/instruction_sets.h"
#include "support/catch.h"

namespace ttrace::specification::exponential_test {
namespace {

double exponential(double x) { return exponential_of<double, std::int64_t>(x); }

TEST_CASE("an exponential is at most two units in the last place off") {
  double worst = 0;
  for (double x = -700; x < 700; x += 0.37) {
    const double expected = std::exp(x);
    worst = std::max(worst, std::abs(exponential(x) - expected) / expected);
  }
  CHECK(worst <= 0x1p-51);
  CHECK(exponential(0) == 1);
}

TEST_CASE("exponentials beyond the range are 0, infinite, subnormal or no number") {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  CHECK(exponential(kInfinite) == kInfinite);
  CHECK(exponential(710) == kInfinite);
  CHECK(exponential(-kInfinite) == 0);
  CHECK(exponential(-800) == 0);
  CHECK(std::abs(exponential(-740) - std::exp(-740)) <= 0x1p-1074);
  CHECK(std::isnan(exponential(std::numeric_limits<double>::quiet_NaN())));
}

TEST_CASE("sums of exponentials are the same to the bit with every instruction set") {
  std::vector<double> x(61);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = -0.3 * static_cast<double>(i);
  std::vector<double> expected(x.size());
  const double total = kExponentialsBaseline(x.data(), 1.5, expected.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(expected[i] == exponential(x[i] - 1.5));
  CHECK(kExponentialsBaseline(x.data(), 1.5, nullptr, x.size()) == total);
  std::vector<double> found(x.size());
#ifdef __x86_64__
  if (base::instruction_sets().v3) {
    CHECK(kExponentialsV3(x.data(), 1.5, found.data(), x.size()) == total);
    CHECK(found == expected);
  }
  if (base::instruction_sets().v4) {
    CHECK(kExponentialsV4(x.data(), 1.5, found.data(), x.size()) == total);
    CHECK(found == expected);
  }
#endif
  CHECK(add_exponentials(x.data(), 1.5, found.data(), x.size()) == total);
}

}  // namespace
}  // namespace ttrace::specification::exponential_test
