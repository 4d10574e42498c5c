// The CPU's arithmetic on tiles: reads the inputs of requests tile by tile, and computes on single
// ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "measure/backend.h"
#include "measure/cpu/kernel.h"
#include "measure/tile_stats.h"
#include "tensor/box.h"
#include "tensor/dtype.h"
#include "tensor/run_cursor.h"

namespace ttrace::measure {

// Numbers of one tile. On the stack, where no constructor sets them to zero.
using TileNumbers = std::array<double, kTileElements>;

// Writes out.size() numbers to `out`: those of `values` from element `first` on.
void decode(const StoredValues& values, std::uint64_t first, std::span<double> out);

// Returns the same numbers, without a copy where the values are numbers already; `scratch` has room
// for `count`.
std::span<const double> numbers(const StoredValues& values, std::uint64_t first, std::size_t count,
                                std::span<double> scratch);

// Walks a box within an input, in the box's row-major order. Gathers elements that are not
// contiguous.
class TileCursor {
 public:
  TileCursor(const InputBox& input, const tensor::Box& box);

  // The next `count` ≤ kTileElements elements as they are stored, valid until the next call.
  const std::byte* next(std::size_t count);
  // The same as numbers.
  const std::byte* next_numbers(std::size_t count);
  void skip(std::uint64_t count) { cursor_.advance(count); }

 private:
  const StoredValues& values_;
  std::size_t element_bytes_;
  tensor::RunCursor cursor_;
  std::array<std::byte, kTileElements * sizeof(double)> gathered_;
  TileNumbers numbers_;
};

// Walks a box within an input as TileCursor does, but leaves the elements where they are.
class PlacedCursor {
 public:
  PlacedCursor(const InputBox& input, const tensor::Box& box);

  // Whether the elements lie one after the other, unscaled.
  bool is_plain() const { return values_.scale == 1 && cursor_.is_one_run(); }
  // Whether runs of elements are long enough; else next() must not be called.
  bool fits() const { return cursor_.has_groups_of(kPlacedTogether); }

  // The next `count` ≤ kTileElements elements, valid until the next call. All calls but the last
  // take a whole tile.
  PlacedValues next(std::size_t count);
  // The same elements of another input of this one's type and box.
  PlacedValues here(const StoredValues& other) const {
    return {other.bits.data(), offsets_.data(), other.scale};
  }

 private:
  const StoredValues& values_;
  std::size_t element_bytes_;
  tensor::RunCursor cursor_;
  std::array<std::size_t, kTileElements / kPlacedTogether> offsets_;
};

// Adds the sums of a tile of finite pairs, without its largest difference.
void add_sums(const TileSums& sums, TileStats& into);

// Adds the statistics of one tile to those of the elements before it: `count` ≤ kTileElements
// values of the floating-point type `dtype`, stored one after the other. They are the values of
// `box` (coordinates of the logical tensor) from its row-major position `first` on. Non-finite
// values are classified by position before any arithmetic and left out of the sums.
void add_tile(const Kernel& kernel, tensor::DType dtype, const std::byte* reference,
              const std::byte* candidate, std::size_t count, const tensor::Box& box,
              std::uint64_t first, TileStats& into);

// The same for numbers.
void add_numbers(const Kernel& kernel, std::span<const double> reference,
                 std::span<const double> candidate, const tensor::Box& box, std::uint64_t first,
                 TileStats& into);

// Adds lanes that are 16, 8, 4, 2 and 1 apart, in turn.
using Lanes = std::array<double, kLanes>;
double add_lanes(Lanes& lanes);

// Whether all `count` values are finite.
bool all_finite(const double* values, std::size_t count);

// Returns Σ (A - B)² over `count` pairs, in the order of the kernels.
double sum_squared_distance(const double* a, const double* b, std::size_t count);

// Returns `squares` + Σ (A - B)² over a tile. A pair with one non-finite value, or two different
// ones, makes it infinite; pairs of equal non-finite values do not count.
double add_squared_distance(std::span<const double> a, std::span<const double> b, double squares);

}  // namespace ttrace::measure
