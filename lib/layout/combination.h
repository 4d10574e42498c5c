// How the terms of a partial tensor become its value.
#pragma once

#include <vector>

#include "layout/axis_view.h"
#include "layout/plan.h"

namespace ttrace::layout {

// Throws an input error if the axes' reductions cannot be combined.
Combination combination_of(const std::vector<AxisView>& views);

}  // namespace ttrace::layout
