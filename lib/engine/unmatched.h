// Names that only one side has, and what they may be called on the other.
#pragma once

#include <vector>

#include "report/compare_report.h"

namespace ttrace::engine {

// Sets `nearest` of the missing and the extra tensors: names of the other side's unmatched tensors
// of the same kind and shape, the most alike first.
void find_nearest_names(std::vector<report::Result>& results);

}  // namespace ttrace::engine
