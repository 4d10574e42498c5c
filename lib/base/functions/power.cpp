#include "base/functions/power.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/functions/exponential.h"
#include "base/functions/logarithm.h"
#include "base/functions/two_part.h"

namespace ttrace::base {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

bool is_whole(double y) { return std::floor(y) == y; }

// For an x above 0 that may be infinite.
double power_of_positive(double x, double y) {
  if (x == 0 || x == kInfinite) return (x == 0) == (y < 0) ? kInfinite : 0;
  // Every x but 1 has a logarithm above 2^-54, so that a larger y changes nothing.
  constexpr double kLargest = 0x1p65;
  y = y > kLargest ? kLargest : y < -kLargest ? -kLargest : y;
  const TwoPart logarithm = logarithm_in_two_parts(x);
  const TwoPart product = exact_product(y, logarithm.high);
  return exponential_of<double, std::int64_t>(product.high, product.low + y * logarithm.low);
}

}  // namespace

double power(double x, double y) {
  // Shortcuts for the frequent exponents.
  if (y == 2) return x * x;
  if (y == 3 && std::abs(x) > 0x1p-300 && std::abs(x) < 0x1p300) {
    return (exact_product(x, x) * TwoPart{x}).rounded();
  }
  if (x == 1 || y == 0) return 1;
  if (std::isnan(x) || std::isnan(y)) return x + y;
  if (x < 0 && std::isfinite(x) && !is_whole(y)) return std::numeric_limits<double>::quiet_NaN();
  const double size = power_of_positive(std::abs(x), y);
  const bool odd = std::isfinite(y) && is_whole(y) && !is_whole(0.5 * y);
  return odd ? std::copysign(size, x) : size;
}

}  // namespace ttrace::base
