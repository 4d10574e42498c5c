// Statistics of one slab: a dense part of a tensor that is in memory, decoded.
#pragma once

#include <span>

#include "compare/tile_stats.h"
#include "tensor/box.h"

namespace ttrace::compare {

// `reference` and `candidate`: the values of `box` (coordinates of the logical tensor) in row-major
// order. Non-finite values are classified by position before any arithmetic and left out of the
// sums.
TileStats slab_stats(const tensor::Box& box, std::span<const double> reference,
                     std::span<const double> candidate);

// ‖A - B‖² over the slab. A pair with one non-finite value, or two different ones, makes it
// infinite; pairs of equal non-finite values count nothing.
double squared_distance(std::span<const double> a, std::span<const double> b);

}  // namespace ttrace::compare
