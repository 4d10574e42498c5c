// The sums of one lane of a tile, and their reduction over the 32 lanes of a warp. Element i of a
// tile belongs to lane i mod 32; lanes that are 16, 8, 4, 2 and 1 apart are added in turn.
#pragma once

#include <cstdint>

#include "measure/cuda/kernels/decode.h"
#include "measure/cuda/kernels/execution.h"
#include "measure/cuda/kernels/work.h"

namespace ttrace::measure::cuda {

// a · b + sum, by a fused operation. Only where the product is exact, so that it changes no bit.
TTRACE_DEVICE double plus_exact_product(double sum, double a, double b) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, sum);
#else
  return sum + a * b;
#endif
}

struct LaneSums {
  double d2 = 0;
  double d = 0;
  double r2 = 0;
  double c2 = 0;
  double rc = 0;
  double largest = 0;
  std::uint32_t largest_at = kNowhere;
  std::uint32_t unequal = 0;

  // Element `i` of the tile.
  template <bool kExactProducts>
  TTRACE_DEVICE void add(std::uint32_t i, double r, double c) {
    const double difference = c - r;
    d2 = d2 + difference * difference;
    d = d + difference;
    if constexpr (kExactProducts) {
      r2 = plus_exact_product(r2, r, r);
      c2 = plus_exact_product(c2, c, c);
      rc = plus_exact_product(rc, r, c);
    } else {
      r2 = r2 + r * r;
      c2 = c2 + c * c;
      rc = rc + r * c;
    }
    const double size = fabs(difference);
    if (size > largest) {
      largest = size;
      largest_at = i;
    }
    unequal += difference != 0 ? 1 : 0;
  }
};

// Pairs of a lane that have a non-finite value.
struct LaneClasses {
  std::uint32_t reference = 0;
  std::uint32_t candidate = 0;
  std::uint32_t equal = 0;
  std::uint32_t different = 0;
  std::uint32_t first_different = kNowhere;

  TTRACE_DEVICE void add(std::uint32_t i, double r, double c) {
    const bool both_nan = r != r && c != c;
    reference += is_finite(r) ? 0 : 1;
    candidate += is_finite(c) ? 0 : 1;
    if (both_nan || r == c) {  // of which one is not finite
      ++equal;
      return;
    }
    ++different;
    if (first_different == kNowhere) first_different = i;
  }
};

// The results of reductions are valid in lane 0.
template <typename T, typename Execution>
TTRACE_DEVICE T add_lanes(Execution& execution, T value) {
  for (std::uint32_t apart = kWarp / 2; apart > 0; apart /= 2) {
    value = value + execution.down(value, apart);
  }
  return value;
}

template <typename Execution>
TTRACE_DEVICE std::uint32_t least_of_lanes(Execution& execution, std::uint32_t value) {
  for (std::uint32_t apart = kWarp / 2; apart > 0; apart /= 2) {
    const std::uint32_t other = execution.down(value, apart);
    value = other < value ? other : value;
  }
  return value;
}

template <typename Execution>
TTRACE_DEVICE void reduce(Execution& execution, const LaneSums& lane, TileResult& result) {
  result.d2 = add_lanes(execution, lane.d2);
  result.d = add_lanes(execution, lane.d);
  result.r2 = add_lanes(execution, lane.r2);
  result.c2 = add_lanes(execution, lane.c2);
  result.rc = add_lanes(execution, lane.rc);
  result.unequal = add_lanes(execution, lane.unequal);
  double largest = lane.largest;
  std::uint32_t at = lane.largest_at;
  for (std::uint32_t apart = kWarp / 2; apart > 0; apart /= 2) {
    const double other = execution.down(largest, apart);
    const std::uint32_t other_at = execution.down(at, apart);
    const bool takes = other > largest || (other == largest && other_at < at);
    largest = takes ? other : largest;
    at = takes ? other_at : at;
  }
  result.largest = largest;
  result.largest_at = at;
}

template <typename Execution>
TTRACE_DEVICE void reduce(Execution& execution, const LaneClasses& lane, TileResult& result) {
  result.nonfinite_reference = add_lanes(execution, lane.reference);
  result.nonfinite_candidate = add_lanes(execution, lane.candidate);
  result.nonfinite_equal = add_lanes(execution, lane.equal);
  result.nonfinite_different = add_lanes(execution, lane.different);
  result.first_different = least_of_lanes(execution, lane.first_different);
}

}  // namespace ttrace::measure::cuda
