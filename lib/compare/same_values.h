// Whether two tensors hold the same numbers, perhaps in types of different precision.
#pragma once

#include "compare/measure.h"

namespace ttrace::compare {

// Whether all values are equal once both are rounded to the coarser of the two floating-point types
// (NaN equals NaN). The shapes must be equal. Throws an input error if a shard cannot be read.
bool same_values(const TensorRef& a, const TensorRef& b);

}  // namespace ttrace::compare
