// What follows the main gradients of a step, judged from the run's own values: the gradient norm
// from them, and parameters from the step before.
#pragma once

#include <vector>

#include "audit/measured_run.h"
#include "audit/record.h"

namespace ttrace::audit {

// Adds a check to every gradient norm, or the reason why it cannot be judged.
void check_gradient_norms(const MeasuredRun& measured, std::vector<AuditedTensor>& tensors);

// Gives main gradients and gradient norms the reason why none is checked: the checks need all
// tensors of the step. `is_part`: only the merge has them; else some were not judged.
void leave_after_backward(bool is_part, std::vector<AuditedTensor>& tensors);

// Adds a check to every parameter whose updated value the step before recorded.
void check_steps(const MeasuredRun& measured, std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
