// The statistics of one tile, added to those of the elements before it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "measure/cpu/kernel.h"
#include "measure/tile_stats.h"
#include "tensor/box.h"
#include "tensor/dtype.h"

namespace ttrace::measure {

// `count` ≤ kTileElements values of the floating-point type `dtype`, stored one after the other:
// those of `box` (coordinates of the logical tensor) from its row-major position `first` on.
// Non-finite values are classified by position before any arithmetic and left out of the sums.
void add_tile(tensor::DType dtype, const std::byte* reference, const std::byte* candidate,
              std::size_t count, const tensor::Box& box, std::uint64_t first, TileStats& into);

// How far two copies of a shard are apart: an inner loop for what is rare.

// Whether all `count` values are finite.
bool all_finite(const double* values, std::size_t count);

// Σ (A - B)² and max |A - B| over `count` pairs, in the order of the kernels.
struct DistanceSums {
  double d2 = 0;
  double largest = 0;
};
DistanceSums sum_distance(const double* a, const double* b, std::size_t count);

}  // namespace ttrace::measure
