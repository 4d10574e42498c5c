#include "tolerance/sum_rounding.h"

namespace ttrace::tolerance {

double norm_rounding(std::uint64_t elements, double unit_roundoff) {
  constexpr double kOfOneSum = 4;
  constexpr double kLanes = 8;
  return unit_roundoff * (kOfOneSum + static_cast<double>(elements) / (4 * kLanes));
}

}  // namespace ttrace::tolerance
