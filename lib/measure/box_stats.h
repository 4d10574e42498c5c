// Statistics beside the measuring loops: of values in memory, and by index along every dimension.
#pragma once

#include <span>
#include <vector>

#include "measure/tensor_reader.h"
#include "measure/tile_stats.h"
#include "tensor/box.h"

namespace ttrace::measure {

// Returns the statistics of a box (in coordinates of the logical tensor) whose values are
// `reference` and `candidate`, row-major, as the CPU backend makes them of a pair.
TileStats box_stats(const tensor::Box& box, std::span<const double> reference,
                    std::span<const double> candidate);

// Returns errors[d][i]: Σ (C - R)² over the elements whose index along dimension d is i. Pairs with
// a non-finite value count nothing. Reads both, of one shape, once and in bounded memory. Throws an
// input error if a shard cannot be read.
std::vector<std::vector<double>> squared_errors_by_index(const TensorRef& reference,
                                                         const TensorRef& candidate);

}  // namespace ttrace::measure
