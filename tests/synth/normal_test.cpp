#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/catch.h"
#include "synth/random.h"

namespace ttrace::synth {
namespace {

constexpr double kUnit = 0x1p-28;

std::vector<std::uint32_t> some_words(std::size_t count) {
  std::vector<std::uint32_t> words(count);
  Stream::of_tensor(1, "normal_test").words(0, words);
  return words;
}

// Probability of a normal number above x.
double tail_of(double x) { return std::erfc(x / std::sqrt(2.0)) / 2; }

TEST_CASE("the table holds the quantiles that it says it holds, falling") {
  for (std::size_t i = 0; i < 256; ++i) {
    const double tail =
        std::ldexp(1 + static_cast<double>(i % 8) / 8, static_cast<int>(i / 8) - 33);
    // An entry is the nearest integer, so half a unit further out the probability is passed.
    const bool near = tail_of((kQuantiles[i] - 0.6) * kUnit) > tail &&
                      tail_of((kQuantiles[i] + 0.6) * kUnit) < tail;
    CAPTURE(i);
    CHECK(near);
    CHECK(kQuantiles[i] > kQuantiles[i + 1]);
  }
  CHECK(kQuantiles[256] == 0);
}

TEST_CASE("normal numbers have the moments of the normal distribution") {
  const std::size_t count = 400'000;
  double sums[5] = {};
  for (const std::uint32_t word : some_words(count)) {
    const double x = normal_units(word) * kUnit;
    for (int power = 1; power < 5; ++power) sums[power] += std::pow(x, power);
  }
  const auto n = static_cast<double>(count);
  // Four standard deviations of each mean, and what a thousandth of the variance makes.
  CHECK(std::abs(sums[1] / n) < 4 / std::sqrt(n));
  CHECK(std::abs(sums[2] / n - 1) < 4 * std::sqrt(2 / n) + 1e-3);
  CHECK(std::abs(sums[3] / n) < 4 * std::sqrt(15 / n));
  CHECK(std::abs(sums[4] / n - 3) < 4 * std::sqrt(96 / n) + 6e-3);
}

TEST_CASE("the largest distance to the normal distribution function is a matter of chance") {
  std::vector<double> values;
  for (const std::uint32_t word : some_words(400'000)) values.push_back(normal_units(word) * kUnit);
  std::sort(values.begin(), values.end());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = 1 - tail_of(values[i]);
    const double found = (static_cast<double>(i) + 0.5) / static_cast<double>(values.size());
    distance = std::max(distance, std::abs(found - expected));
  }
  // Kolmogorov's 99.9 % quantile is 1.95.
  CHECK(distance * std::sqrt(static_cast<double>(values.size())) < 1.95);
}

TEST_CASE("the words at the ends give the numbers at the ends") {
  CHECK(uniform(0) == -1.0F);
  CHECK(uniform(0xFFFFFFFF) == 1 - 0x1p-23F);
  CHECK(uniform(0x80000000) == 0.0F);
  CHECK(normal_units(0) == kQuantiles[0]);
  CHECK(normal_units(0x80000000) == -kQuantiles[0]);
  CHECK(normal_units(1) == kQuantiles[12]);
  // The probability next to 1/2 lies 2^-33 before it: a quarter of a unit of 2^-28 above 0, whose
  // distance from the last quantile is rounded down.
  CHECK(normal_units(0x7FFFFFFF) == 1);
  CHECK(normal_units(0xFFFFFFFF) == -1);
}

TEST_CASE("the sign is the top bit and nothing else") {
  for (const std::uint32_t word : some_words(1000)) {
    CHECK(normal_units(word ^ 0x80000000) == -normal_units(word));
  }
}

}  // namespace
}  // namespace ttrace::synth
