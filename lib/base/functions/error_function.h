// erf x.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/functions/exponential.h"
#include "base/functions/two_part.h"

namespace ttrace::base {

// For |x| <= 0.875: 2/√π · (x - x³/3 + x⁵/10 - ...).
inline double error_function_near_0(double x) {
  constexpr double kFactors[] = {1.0 / 690452066304000,
                                 -1.0 / 40537905408000,
                                 1.0 / 2528170444800,
                                 -1.0 / 168129561600,
                                 1.0 / 11975040000,
                                 -1.0 / 918086400,
                                 1.0 / 76204800,
                                 -1.0 / 6894720,
                                 1.0 / 685440,
                                 -1.0 / 75600,
                                 1.0 / 9360,
                                 -1.0 / 1320,
                                 1.0 / 216,
                                 -1.0 / 42,
                                 1.0 / 10,
                                 -1.0 / 3};  // (-1)ⁿ/(n! · (2n + 1))
  constexpr TwoPart kTwoOverRootOfPi{0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56};
  if (std::abs(x) < 0x1p-500) return kTwoOverRootOfPi.high * x;
  const double square = x * x;
  const TwoPart first = exact_product(kTwoOverRootOfPi.high, x);
  const double rest = square * polynomial(kFactors, square);
  return first.high + (first.low + x * (kTwoOverRootOfPi.low + kTwoOverRootOfPi.high * rest));
}

// For x from 0.875 to 6: 1 - e^(-x²) · g with g = e^(x²) · erfc x.
inline double error_function_far_from_0(double x) {
  // g in powers of (x - 3)/(x + 3). tests/base/function_cases.py --factors finds these: the
  // error of e^(-x²) · g is below 2^-59.
  constexpr double kFactors[] = {
      -0x1.72a226e44dcd1p-18, -0x1.843ef007aa275p-19, 0x1.426d5da171ebbp-14, 0x1.caea731a03603p-15,
      -0x1.36ab30efb556ep-11, 0x1.73d18eb9a6f46p-11,  0x1.17cd5f6936b0dp-8,  -0x1.8fa5623cbc091p-6,
      0x1.258b147f98872p-4,   -0x1.336ffbedc346ep-3,  0x1.f6ff2040a9e68p-3,  -0x1.4e102b9cfb00ap-2,
      0x1.6e9827d229c1cp-3};
  const double g = polynomial(kFactors, (x - 3) / (x + 3));
  const TwoPart square = exact_product(x, x);
  return 1 - g * exponential_of<double, std::int64_t>(-square.high, -square.low);
}

inline double error_function(double x) {
  const double size = std::abs(x);
  if (size <= 0.875) return error_function_near_0(x);
  // From 6 on it is 1; NaN stays NaN.
  return std::copysign(error_function_far_from_0(size > 6 ? 6 : size), x);
}

}  // namespace ttrace::base
