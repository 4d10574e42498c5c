// The statistics of one tile, added to those of the elements before it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compare/kernels/kernel.h"
#include "compare/tile_stats.h"
#include "tensor/box.h"
#include "tensor/dtype.h"

namespace ttrace::compare {

// `count` ≤ kTileElements values of the floating-point type `dtype`, stored one after the other:
// those of `box` (coordinates of the logical tensor) from its row-major position `first` on.
// Non-finite values are classified by position before any arithmetic and left out of the sums.
void add_tile(tensor::DType dtype, const std::byte* reference, const std::byte* candidate,
              std::size_t count, const tensor::Box& box, std::uint64_t first, TileStats& into);

}  // namespace ttrace::compare
