// Which rows, columns or other indices of a tensor hold most of its difference.
#pragma once

#include <string>

#include "compare/measure.h"

namespace ttrace::engine {

// "98 % of the squared error in rows 4 to 7 of 64", for every dimension of which a quarter of the
// indices or less hold 90 % of it; empty if none does, for dimensions of fewer than four indices,
// and for tensors too large to be read once more for it (2^27 elements). Throws an input error if
// reading fails.
std::string rows_with_error(const compare::TensorRef& reference,
                            const compare::TensorRef& candidate);

}  // namespace ttrace::engine
