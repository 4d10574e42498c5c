// What a recorded tensor should follow from by a specification, and whether the trace holds that.
#pragma once

#include <ostream>

#include "comparison/selection.h"
#include "specification/specification.h"
#include "trace/source.h"

namespace ttrace::report {

// One section per selected tensor, in the order of the manifest: the recorded tensors that its
// expression reads, those that are lacking and with which settings they would be recorded, and the
// operations. Reads no data. Throws a usage error if the selection matches nothing.
void inspect_expressions(const trace::Source& source,
                         const specification::Specification& specification,
                         const comparison::Selection& selection, std::ostream& out);

}  // namespace ttrace::report
