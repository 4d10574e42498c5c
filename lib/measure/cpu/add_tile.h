// Arithmetic on single tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "measure/cpu/kernel.h"
#include "measure/tile_stats.h"
#include "tensor/box.h"
#include "tensor/dtype.h"

namespace ttrace::measure {

// Adds the statistics of one tile to those of the elements before it: `count` ≤ kTileElements
// values of the floating-point type `dtype`, stored one after the other: those of `box`
// (coordinates of the logical tensor) from its row-major position `first` on. Non-finite values are
// classified by position before any arithmetic and left out of the sums.
void add_tile(const Kernel& kernel, tensor::DType dtype, const std::byte* reference,
              const std::byte* candidate, std::size_t count, const tensor::Box& box,
              std::uint64_t first, TileStats& into);

// The same for numbers.
void add_numbers(const Kernel& kernel, std::span<const double> reference,
                 std::span<const double> candidate, const tensor::Box& box, std::uint64_t first,
                 TileStats& into);

// Whether all `count` values are finite.
bool all_finite(const double* values, std::size_t count);

// Σ (A - B)² and max |A - B| over `count` pairs, in the order of the kernels.
struct DistanceSums {
  double d2 = 0;
  double largest = 0;
};
DistanceSums sum_distance(const double* a, const double* b, std::size_t count);

// Returns `squares` + Σ (A - B)² over a tile. A pair with one non-finite value, or two different
// ones, makes it infinite; pairs of equal non-finite values count nothing.
double add_squared_distance(std::span<const double> a, std::span<const double> b, double squares);

}  // namespace ttrace::measure
