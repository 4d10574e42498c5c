// Parameters that get no gradient in a step: what their optimizer may have made of them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "audit/record.h"
#include "measure/backend.h"
#include "trace/source.h"

namespace ttrace::audit {

// Adds a check to every updated parameter of which the trace has no gradient and for which the
// step has none (`trained` are the names of those for which it has one): it is the parameter as it
// was, or what its optimizer makes of a gradient of zeros where a framework hands it some.
void check_unused_parameters(const trace::Source& run, const std::set<std::string>& trained,
                             const measure::ExecutionContext& execution,
                             std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
