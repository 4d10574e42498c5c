// Names that only one side has, and what they may be called on the other.
#pragma once

#include <vector>

#include "comparison/result.h"

namespace ttrace::localize {

// Sets `nearest` of the missing and the extra tensors: names of the other side's unmatched tensors
// of the same kind and shape, the most alike first.
void find_nearest_names(std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::localize
