// tanh x = (e^2x - 1)/(e^2x + 1).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/functions/exponential.h"
#include "base/functions/two_part.h"

namespace ttrace::base {

// e^x - 1, for x from 0 to 700.
inline TwoPart growth_in_two_parts(double x) {
  const double shifted = x * kLog2OfE + kInLastBits;
  const double times = shifted - kInLastBits;  // x = times · ln 2 + r
  const TwoPart r = exact_sum(x - times * kLn2High, -(times * kLn2Low));
  constexpr double kFactors[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                 1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                 1.0 / 120,        1.0 / 24,        1.0 / 6,        1.0 / 2};
  const double tail = r.high * r.high * polynomial(kFactors, r.high) + r.low * (1 + r.high);
  const TwoPart below = exact_sum_of_ordered(r.high, tail);  // e^r - 1
  const auto two_to_times =
      std::bit_cast<double>((std::bit_cast<std::int64_t>(shifted) + 1023) << 52);
  const TwoPart sum = exact_sum(two_to_times - 1, two_to_times * below.high);
  return {sum.high, sum.low + two_to_times * below.low};
}

inline double hyperbolic_tangent(double x) {
  const double size = std::abs(x);
  // From 22 on it is 1; NaN stays NaN.
  const TwoPart growth = growth_in_two_parts(size > 22 ? 44 : 2 * size);
  TwoPart divisor = exact_sum(growth.high, 2);
  divisor.low += growth.low;
  const double quotient = (growth / divisor).rounded();
  return size < 0x1p-28 ? x : std::copysign(quotient, x);
}

}  // namespace ttrace::base
