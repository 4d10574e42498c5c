// The squared difference of two tensors by index: of every row, every column, and so on.
#pragma once

#include <vector>

#include "compare/measure.h"

namespace ttrace::compare {

// errors[d][i]: Σ (C - R)² over the elements whose index along dimension d is i. Pairs that are not
// finite on either side count nothing. Both have one shape; they are read once, in bounded memory.
// Throws an input error if a shard cannot be read.
std::vector<std::vector<double>> squared_errors_by_index(const TensorRef& reference,
                                                         const TensorRef& candidate);

}  // namespace ttrace::compare
