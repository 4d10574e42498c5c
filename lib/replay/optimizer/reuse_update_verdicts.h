// Judges parameters with which a step begins by the update of the step before.
#pragma once

#include <vector>

#include "comparison/pairing.h"
#include "comparison/result.h"
#include "measure/execution_context.h"
#include "trace/source.h"

namespace ttrace::replay {

// Call it when every record has its outcome. A parameter (or the optimizer's main copy of
// it) that diverges at the beginning of a step takes the comparison and the outcome of the update
// before, if that matches and the candidate's values are still the same: noise cannot judge what an
// optimizer has stepped, and the replay has judged it already. Reads values only where it diverges.
void reuse_update_verdicts(const trace::Source& candidate,
                           const measure::ExecutionContext& execution,
                           std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::replay
