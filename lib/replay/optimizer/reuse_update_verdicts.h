// Parameters that a step begins with are those that the step before ended with.
#pragma once

#include <vector>

#include "comparison/pairing.h"
#include "comparison/result.h"
#include "measure/execution_context.h"
#include "trace/source.h"

namespace ttrace::replay {

// Every record has its outcome. A parameter (or the optimizer's main copy of
// it) that diverges at the beginning of a step takes the comparison and the outcome of the update
// before, if that matches and the candidate's values are still the same: noise cannot judge what an
// optimizer has stepped, and what can has been asked. The values are only read where it diverges.
void carry_parameters(const trace::Source& candidate, const measure::ExecutionContext& execution,
                      std::vector<comparison::Result>& results);

}  // namespace ttrace::replay
