// sinh x and cosh x, and the inverse of these and of tanh.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/functions/exponential.h"
#include "base/functions/logarithm.h"
#include "base/functions/two_part.h"

namespace ttrace::base {

// From here on e^-x is nothing beside e^x.
inline constexpr double kExponentialAlone = 40;

// e^x / 2, which may be a number where e^x is none.
inline double half_exponential(double x) {
  const double root = exponential(0.5 * x);
  return x < 700 ? 0.5 * exponential(x) : 0.5 * root * root;
}

inline double hyperbolic_sine(double x) {
  // 1/n! for n = 21, 19, ... 3.
  constexpr double kFactors[] = {1.0 / 51090942171709440000.0,
                                 1.0 / 121645100408832000,
                                 1.0 / 355687428096000,
                                 1.0 / 1307674368000,
                                 1.0 / 6227020800,
                                 1.0 / 39916800,
                                 1.0 / 362880,
                                 1.0 / 5040,
                                 1.0 / 120,
                                 1.0 / 6};
  const double size = std::abs(x);
  if (size < 1) return x + x * (x * x * polynomial(kFactors, x * x));
  const double half = half_exponential(size);
  return std::copysign(size < kExponentialAlone ? half - 0.25 / half : half, x);
}

inline double hyperbolic_cosine(double x) {
  const double half = half_exponential(std::abs(x));
  return std::abs(x) < kExponentialAlone ? half + 0.25 / half : half;
}

inline double inverse_hyperbolic_sine(double x) {
  const double size = std::abs(x);
  // √(1 + x²) - 1 = x² / (1 + √(1 + x²)), in which nothing cancels.
  const double square = size * size;
  const double small = logarithm_of_1_plus(size + square / (1 + std::sqrt(1 + square)));
  const double large = (logarithm_in_two_parts(size) + TwoPart{kLn2High, kLn2Low}).rounded();
  return std::copysign(size < 0x1p30 ? small : logarithm_or_limit(size, large), x);
}

// NaN below 1.
inline double inverse_hyperbolic_cosine(double x) {
  const double above = x - 1;
  const double small = logarithm_of_1_plus(above + std::sqrt(above * (above + 2)));
  const double large = (logarithm_in_two_parts(x) + TwoPart{kLn2High, kLn2Low}).rounded();
  return x < 0x1p30 ? small : logarithm_or_limit(x, large);
}

// NaN beyond -1 and 1.
inline double inverse_hyperbolic_tangent(double x) {
  const double size = std::abs(x);
  return std::copysign(0.5 * logarithm_of_1_plus(2 * size / (1 - size)), x);
}

}  // namespace ttrace::base
