// √(x² + y²).
#pragma once

#include <cmath>
#include <limits>

namespace ttrace::base {

inline double hypotenuse(double x, double y) {
  x = std::abs(x);
  y = std::abs(y);
  const double larger = x > y ? x : y;
  // Squares must neither overflow nor lose bits.
  const double scale = larger > 0x1p500 ? 0x1p-600 : larger < 0x1p-400 ? 0x1p600 : 1;
  const double size = std::sqrt((x * scale) * (x * scale) + (y * scale) * (y * scale)) / scale;
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  return x == kInfinite || y == kInfinite ? kInfinite : size;
}

}  // namespace ttrace::base
