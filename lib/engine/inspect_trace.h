// The story of `ttrace inspect`: what is in this trace?
#pragma once

#include <ostream>

#include "comparison/selection.h"
#include "trace/source.h"

namespace ttrace::engine {

// A summary of the run, then one line per selected tensor with shape, dtype and layout; with
// `values`, also norm, largest and smallest value and the count of non-finite elements, which reads
// the data. Throws a usage error if the selection matches nothing.
void inspect_trace(const trace::Source& source, const comparison::Selection& selection, bool values,
                   std::ostream& out);

}  // namespace ttrace::engine
