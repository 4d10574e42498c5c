// Whether a specification is of the run that it is to judge.
#pragma once

#include <string>

#include "specification/specification.h"
#include "trace/source.h"

namespace ttrace::audit {

// Throws an input error, with the first difference, if the specification (read from `file`) is of
// another model, batch or precision: less than half of its parameters are in the run, which has
// others; no tensor in common; or another shape or dtype under the same key. Names the layout
// where a declaration that is wrong over one axis of the mesh explains the other shape.
void require_fits(const trace::Source& run, const specification::Specification& specification,
                  const std::string& file);

}  // namespace ttrace::audit
