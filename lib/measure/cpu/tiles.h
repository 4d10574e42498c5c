// Reads the inputs of requests tile by tile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "measure/backend.h"
#include "measure/cpu/kernel.h"
#include "tensor/run_cursor.h"

namespace ttrace::measure {

// Numbers of one tile. On the stack, where no constructor sets them to zero.
using TileNumbers = std::array<double, kTileElements>;

// Writes out.size() numbers to `out`: those of `values` from element `first` on.
void decode(const StoredValues& values, std::uint64_t first, std::span<double> out);

// The same without a copy where the values are numbers already; `scratch` has room for `count`.
std::span<const double> numbers(const StoredValues& values, std::uint64_t first, std::size_t count,
                                std::span<double> scratch);

// Walks a box within an input, in the box's row-major order. Elements that do not lie one after the
// other are brought together.
class TileCursor {
 public:
  TileCursor(const InputBox& input, const tensor::Box& box);

  // The next `count` ≤ kTileElements elements as they are stored, valid until the next call.
  const std::byte* next(std::size_t count);
  // The same as numbers.
  const std::byte* next_numbers(std::size_t count);

 private:
  const StoredValues& values_;
  std::size_t element_bytes_;
  tensor::RunCursor cursor_;
  std::array<std::byte, kTileElements * sizeof(double)> gathered_;
  TileNumbers numbers_;
};

}  // namespace ttrace::measure
