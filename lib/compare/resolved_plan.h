// The layout of a tensor of an open trace, index tensors read.
#pragma once

#include "layout/plan.h"
#include "trace/source.h"

namespace ttrace::compare {

// Throws an input error if the placements contradict themselves, or if an index that they name
// cannot be read or names rows that do not fit.
layout::Plan resolved_plan(const trace::Source& source, const trace::TensorEntry& entry);

}  // namespace ttrace::compare
