// Pairs the names of a module's values across versions of the trace format: version 1 numbers them
// ("attn[1]"), version 2 names them after the arguments ("attn[mask]").
#pragma once

#include <vector>

#include "layout/view.h"

namespace ttrace::layout {

// Gives `tensors` the names of `reference`, where one of the two names a module's values by
// position and the other by argument. Values of one module and call are paired by position if both
// sides have as many; else in order, by shape and class of type, so that an extra argument shifts
// nothing. The rest keep their names, unless the reference has another value of that name.
std::vector<ViewPtr> renamed_values(const std::vector<ViewPtr>& tensors, bool by_position,
                                    const std::vector<ViewPtr>& reference,
                                    bool reference_by_position);

}  // namespace ttrace::layout
