// The tensors of a run as `ttrace audit` judges them: their outcomes from their checks, and which
// of them follow from others that are broken.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "answer/audited_tensor.h"
#include "localize/place.h"

namespace ttrace::audit {

using localize::module_of;

using answer::AuditCheck;
using answer::AuditedTensor;
using answer::AuditOutcome;
using answer::CheckResult;
using answer::judges_value;
using answer::kBelowBoundReason;

// The checks that do not hold of the tensor and that hold of nothing that is computed from it
// either: its replicas differ, or it is not finite.
std::set<std::string> travelling(const AuditedTensor& tensor);

// Marks the broken tensors that tensors they were computed from explain: whose replicas differ, or
// that are not finite, as is true of one of these, or that do not follow from one whose replicas
// differ.
void mark_downstream(std::vector<AuditedTensor>& tensors);

// Sets the outcomes from the checks; a given tensor stays given unless a check judges it. The
// tensors of a module are together.
void settle_outcomes(std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
