// The tensors of a run as `ttrace audit` judges them: their outcomes from their checks, and which
// of them follow from others that are broken.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "answer/audited_tensor.h"
#include "localize/place.h"

namespace ttrace::audit {

using trace::module_of;

using answer::AuditCheck;
using answer::AuditedTensor;
using answer::AuditOutcome;
using answer::CheckResult;
using answer::judges_value;
using answer::kBelowBoundReason;

// The broken checks of the tensor that also break in tensors computed from it: its replicas differ,
// or it is not finite.
std::set<std::string> travelling(const AuditedTensor& tensor);

// Marks broken tensors that a tensor explains from which they were computed: both have replicas
// that differ, or both are not finite, or the broken tensor does not follow from one whose replicas
// differ.
void mark_downstream(std::vector<AuditedTensor>& tensors);

// Sets the outcomes from the checks; a given tensor stays given unless a check judges it. `tensors`
// must have all tensors of a module.
void settle_outcomes(std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
