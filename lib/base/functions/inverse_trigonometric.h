// Angles: atan x, asin x, acos x, and the angle of a point.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/functions/two_part.h"

namespace ttrace::base {

inline constexpr TwoPart kPi{0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};
inline constexpr TwoPart kHalfPi{kPi.high / 2, kPi.low / 2};

// atan t = t - t³/3 + t⁵/5 - ..., for |t| <= 1/8.
constexpr TwoPart arctangent_by_series(TwoPart t) {
  const TwoPart square = t * t;
  TwoPart sum;
  for (int n = 37; n > 0; n -= 2) {
    const TwoPart factor = TwoPart{n % 4 == 1 ? 1.0 : -1.0} / TwoPart{n * 1.0};
    sum = sum * square + factor;
  }
  return t * sum;
}

// atan(k/8) for k = 0 ... 8, each from the one before: the difference of the angles of k/8 and
// (k - 1)/8 is that of 8/(64 + k(k - 1)).
inline constexpr auto kArctangentsOfEighths = [] {
  std::array<TwoPart, 9> all;
  for (std::size_t k = 1; k < all.size(); ++k) {
    const TwoPart step = TwoPart{8} / TwoPart{static_cast<double>(64 + k * (k - 1))};
    all[k] = all[k - 1] + arctangent_by_series(step);
  }
  return all;
}();

// atan x for x from 0 to 1, as the angle of the nearest eighth and the rest.
inline TwoPart arctangent_in_two_parts(double x) {
  constexpr double kFactors[] = {1.0 / 13, -1.0 / 11, 1.0 / 9, -1.0 / 7, 1.0 / 5, -1.0 / 3};
  const auto eighths = static_cast<std::size_t>(8 * x + 0.5);
  const double near = static_cast<double>(eighths) / 8;
  // |t| <= 1/16, up to its rounding.
  const double t = (x - near) / (1 + x * near);
  const double square = t * t;
  const TwoPart& angle = kArctangentsOfEighths[eighths];
  const TwoPart sum = exact_sum_of_ordered(angle.high, t);
  return {sum.high, sum.low + (angle.low + t * (square * polynomial(kFactors, square)))};
}

// The angle between the point (x, y) and the positive x axis, from -π to π, as C's atan2(y, x).
inline double angle_of_point(double y, double x) {
  if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<double>::quiet_NaN();
  const double up = std::abs(y);
  const double right = std::abs(x);
  TwoPart angle;
  if (std::isinf(up) && std::isinf(right)) {
    angle = {kPi.high / 4, kPi.low / 4};
  } else if (up <= right) {
    if (up != 0) angle = arctangent_in_two_parts(up / right);
  } else {
    const TwoPart other = arctangent_in_two_parts(right / up);
    angle = kHalfPi + TwoPart{-other.high, -other.low};
  }
  if (std::signbit(x)) angle = kPi + TwoPart{-angle.high, -angle.low};
  return std::copysign(angle.rounded(), y);
}

inline double arctangent(double x) { return angle_of_point(x, 1); }

// NaN outside [-1, 1], as arccosine. 1 - |x| is exact where it is small.
inline double arcsine(double x) { return angle_of_point(x, std::sqrt((1 - x) * (1 + x))); }
inline double arccosine(double x) { return angle_of_point(std::sqrt((1 - x) * (1 + x)), x); }

}  // namespace ttrace::base
