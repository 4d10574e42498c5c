// Parameters that get no gradient in a step: what their optimizer may have made of them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "audit/record.h"
#include "measure/backend.h"
#include "specification/specification.h"
#include "trace/source.h"

namespace ttrace::audit {

// Adds a check to every updated parameter that has no gradient in the trace and gets none in the
// step (`trained` names those that get one): it must equal the parameter before the step, or what
// its optimizer makes of a gradient of zeros, which some frameworks hand it. A parameter that
// the reference froze in that step must be as before, even if the run has a gradient of it.
void check_unused_parameters(const trace::Source& run,
                             const specification::Specification& specification,
                             const std::set<std::string>& trained,
                             const measure::ExecutionContext& execution,
                             std::vector<AuditedTensor>& tensors);

// Adds a broken check to every parameter of the first step that gets a gradient in the step of the
// specification (`trained`) and none in the run, whose module ran, if most others have theirs,
// nothing says that it was left out, and nothing else is broken, which would explain it.
void check_untrained_parameters(const trace::Source& run,
                                const specification::Specification& specification,
                                const std::set<std::string>& trained,
                                std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
