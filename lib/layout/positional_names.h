// Traces of version 1 name a module's values by position ("attn[1]"), those of version 2 by their
// place among the arguments ("attn[mask]").
#pragma once

#include <vector>

#include "layout/view.h"

namespace ttrace::layout {

// `tensors` with the names that `reference` has, where one of the two names a module's values by
// position and the other by path. Values of one module and call meet by their positions where both
// sides have as many; else in the same order, by shape and class of type, so that an argument too
// many shifts nothing. The rest keeps its name, unless that is another value's in the reference.
std::vector<ViewPtr> renamed_values(const std::vector<ViewPtr>& tensors, bool by_position,
                                    const std::vector<ViewPtr>& reference,
                                    bool reference_by_position);

}  // namespace ttrace::layout
