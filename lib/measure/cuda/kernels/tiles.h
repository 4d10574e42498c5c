// Sums over tiles, one warp per tile.
#pragma once

#include <cstdint>

#include "measure/cuda/kernels/decode.h"
#include "measure/cuda/kernels/execution.h"
#include "measure/cuda/kernels/lanes.h"
#include "measure/cuda/kernels/work.h"

namespace ttrace::measure::cuda {

// The tile of one warp.
struct WarpTile {
  const TileJob* job = nullptr;
  std::uint64_t first = 0;  // element of the job
  std::uint32_t count = 0;  // elements
  std::uint64_t index = 0;  // in the launch
  std::uint32_t lane = 0;
};

// Finds the calling warp's tile; false if there is none.
template <typename Execution>
TTRACE_DEVICE bool find_tile(const Execution& execution, const TileLaunch& launch, WarpTile& tile) {
  const std::uint32_t warps = execution.block_threads() / kWarp;
  tile.index = execution.block() * warps + execution.thread() / kWarp;
  tile.lane = execution.thread() % kWarp;
  if (tile.index >= launch.tiles) return false;
  std::uint32_t low = 0;
  for (std::uint32_t high = launch.job_count; high - low > 1;) {
    const std::uint32_t middle = low + (high - low) / 2;
    (launch.jobs[middle].first_tile <= tile.index ? low : high) = middle;
  }
  tile.job = launch.jobs + low;
  tile.first = (tile.index - tile.job->first_tile) * kTile;
  const std::uint64_t left = tile.job->elements - tile.first;
  tile.count = static_cast<std::uint32_t>(left < kTile ? left : kTile);
  return true;
}

// Reads the elements of a tile as they are stored.
template <typename Type>
class StoredTile {
 public:
  static constexpr bool kExactProducts = Type::kExactProducts;
  TTRACE_DEVICE StoredTile(const DeviceValues& values, std::uint64_t first)
      : bits_(static_cast<const typename Type::Bits*>(values.bits) + first) {}
  TTRACE_DEVICE double operator()(std::uint32_t i) const {
    return static_cast<double>(Type::decode(bits_[i]));
  }

 private:
  const typename Type::Bits* bits_;
};

// Reads the elements of a tile of any type, times their scale.
class NumbersTile {
 public:
  static constexpr bool kExactProducts = false;
  TTRACE_DEVICE NumbersTile(const DeviceValues& values, std::uint64_t first)
      : values_(values), first_(first) {}
  TTRACE_DEVICE double operator()(std::uint32_t i) const { return number_at(values_, first_ + i); }

 private:
  DeviceValues values_;
  std::uint64_t first_;
};

template <typename Tile, typename Execution>
TTRACE_DEVICE void sum_lane(const WarpTile& tile, const Tile& r, const Tile& c,
                            Execution& execution, TileResult& result) {
  LaneSums sums;
  TTRACE_UNROLL_4
  for (std::uint32_t i = tile.lane; i < tile.count; i += kWarp) {
    sums.template add<Tile::kExactProducts>(i, r(i), c(i));
  }
  reduce(execution, sums, result);
}

// The same without the pairs that have a non-finite value, which are classified.
template <typename Tile, typename Execution>
TTRACE_DEVICE void sum_finite(const WarpTile& tile, const Tile& r, const Tile& c,
                              Execution& execution, TileResult& result) {
  LaneSums sums;
  LaneClasses classes;
  for (std::uint32_t i = tile.lane; i < tile.count; i += kWarp) {
    const double a = r(i);
    const double b = c(i);
    if (is_finite(a) && is_finite(b)) {
      sums.template add<false>(i, a, b);
    } else {
      classes.add(i, a, b);
    }
  }
  reduce(execution, sums, result);
  reduce(execution, classes, result);
}

// Pairs. If a value is not finite, one of the sums of squares is not finite either; all lanes then
// go over the tile again.
template <typename Tile, typename Execution>
TTRACE_DEVICE void sum_pairs(Execution& execution, const TileLaunch& launch) {
  WarpTile tile;
  if (!find_tile(execution, launch, tile)) return;
  const Tile r(tile.job->inputs[0], tile.first);
  const Tile c(tile.job->inputs[1], tile.first);
  TileResult result;
  sum_lane(tile, r, c, execution, result);
  const int finite = execution.from(is_finite(result.r2) && is_finite(result.c2) ? 1 : 0, 0);
  if (finite == 0) sum_finite(tile, r, c, execution, result);
  if (tile.lane != 0) return;
  if (result.largest_at != kNowhere) {
    result.reference_at = r(result.largest_at);
    result.candidate_at = c(result.largest_at);
  }
  launch.results[tile.index] = result;
}

// |a - b| of 64-bit integers, each signed or not: up to 65 bits.
struct WideSize {
  std::uint32_t high = 0;
  std::uint64_t low = 0;

  TTRACE_DEVICE bool above(const WideSize& other) const {
    return high > other.high || (high == other.high && low > other.low);
  }
  TTRACE_DEVICE bool equals(const WideSize& other) const {
    return high == other.high && low == other.low;
  }
};

TTRACE_DEVICE WideSize distance_of(std::uint64_t a, bool a_signed, std::uint64_t b, bool b_signed) {
  const bool a_negative = a_signed && a >> 63 != 0;
  const bool b_negative = b_signed && b >> 63 != 0;
  if (a_negative == b_negative) return {0, a > b ? a - b : b - a};
  const std::uint64_t positive = a_negative ? b : a;
  const std::uint64_t size = 0 - (a_negative ? a : b);  // of the negative one
  const std::uint64_t sum = positive + size;
  return {sum < positive ? 1U : 0U, sum};
}

// Integers: sums over numbers as for pairs, but what is unequal and the place of the largest
// difference are exact.
template <typename Execution>
TTRACE_DEVICE void sum_integers(Execution& execution, const TileLaunch& launch) {
  WarpTile tile;
  if (!find_tile(execution, launch, tile)) return;
  const DeviceValues& reference = tile.job->inputs[0];
  const DeviceValues& candidate = tile.job->inputs[1];
  TileResult result;
  sum_lane(tile, NumbersTile(reference, tile.first), NumbersTile(candidate, tile.first), execution,
           result);
  WideSize largest;
  std::uint32_t at = kNowhere;
  std::uint32_t unequal = 0;
  for (std::uint32_t i = tile.lane; i < tile.count; i += kWarp) {
    const WideSize size = distance_of(stored_at<std::uint64_t>(reference.bits, tile.first + i),
                                      reference.dtype == tensor::DType::kInt64,
                                      stored_at<std::uint64_t>(candidate.bits, tile.first + i),
                                      candidate.dtype == tensor::DType::kInt64);
    if (size.equals({})) continue;
    ++unequal;
    if (!size.above(largest)) continue;
    largest = size;
    at = i;
  }
  result.unequal = add_lanes(execution, unequal);
  for (std::uint32_t apart = kWarp / 2; apart > 0; apart /= 2) {
    WideSize other;
    other.high = execution.down(largest.high, apart);
    other.low = execution.down(largest.low, apart);
    const std::uint32_t other_at = execution.down(at, apart);
    const bool takes = other.above(largest) || (other.equals(largest) && other_at < at);
    largest = takes ? other : largest;
    at = takes ? other_at : at;
  }
  result.largest_at = at;
  if (tile.lane == 0) launch.results[tile.index] = result;
}

}  // namespace ttrace::measure::cuda
