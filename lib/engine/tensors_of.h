// The tensors of a trace that are there to be looked at.
#pragma once

#include <vector>

#include "layout/view.h"
#include "trace/source.h"

namespace ttrace::engine {

// All of them but the index tensors that a placement names: those are layout, and differ between
// runs that are equal.
std::vector<layout::ViewPtr> tensors_of(const trace::Manifest& manifest);

}  // namespace ttrace::engine
