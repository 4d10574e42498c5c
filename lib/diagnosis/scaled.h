// A value multiplied once too often or too seldom: C ≈ k·R with nothing left over.
#pragma once

#include <vector>

#include "diagnosis/cause.h"

namespace ttrace::diagnosis {

std::vector<Cause> find_scaled(const Case& the_case);

}  // namespace ttrace::diagnosis
