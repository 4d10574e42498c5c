// A value that was never summed (or averaged) over an axis: the copies differ, and their sum is the
// reference.
#pragma once

#include <vector>

#include "localize/causes/cause.h"

namespace ttrace::localize {

std::vector<Cause> find_missing_reduction(const Case& the_case);

}  // namespace ttrace::localize
