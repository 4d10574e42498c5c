// The sums of a comparison, by plain loops in extended precision.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace ttrace::test {

struct NaiveSums {
  long double d2 = 0, d = 0, r2 = 0, c2 = 0, rc = 0;
  long double absolute_d = 0, absolute_rc = 0;  // what rounding errors of d and rc are relative to
  double largest = 0;
  std::size_t largest_at = 0;
  std::size_t unequal = 0;
};

inline NaiveSums naive_sums(std::span<const double> reference, std::span<const double> candidate) {
  NaiveSums sums;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const long double r = reference[i];
    const long double c = candidate[i];
    sums.d2 += (c - r) * (c - r);
    sums.d += c - r;
    sums.absolute_d += std::abs(c - r);
    sums.r2 += r * r;
    sums.c2 += c * c;
    sums.rc += r * c;
    sums.absolute_rc += std::abs(r * c);
    const double size = std::abs(candidate[i] - reference[i]);
    if (size > sums.largest) {
      sums.largest = size;
      sums.largest_at = i;
    }
    sums.unequal += candidate[i] != reference[i] ? 1 : 0;
  }
  return sums;
}

// |value - expected| ≤ 1e-12 · scale.
inline bool near(double value, long double expected, long double scale) {
  return std::abs(value - expected) <= 1e-12L * scale;
}

}  // namespace ttrace::test
