// Main gradients, judged from the run's own raw ones.
#pragma once

#include <vector>

#include "audit/measured_run.h"
#include "audit/record.h"

namespace ttrace::audit {

// Adds a check to every main gradient, or the reason why it cannot be judged. How the model's own
// training loop makes main gradients of raw ones comes from the specification, because a run's own
// statement would excuse a wrong factor; without it none can be judged.
void check_main_gradients(const MeasuredRun& measured, std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
