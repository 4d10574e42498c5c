// Findings of a comparison that are mere consequences: the tensor follows, by its expression, from
// inputs that have diverged.
#pragma once

#include <vector>

#include "audit/record.h"
#include "localize/localization.h"
#include "specification/specification.h"
#include "trace/manifest.h"

namespace ttrace::audit {

// Moves the findings of `report` that are plain consequences to its `consequences`; one finding
// stays at least. A finding is a consequence if this is true of each of its tensors (`judged` has
// the candidate's): its expression was judged, holds on the run's own values, and reads a tensor
// that is bad. A tensor whose layout is declared wrongly does not count as bad here.
void set_consequences_apart(const specification::Specification& specification,
                            const trace::Manifest& candidate,
                            const std::vector<AuditedTensor>& judged,
                            localize::LocalizeReport& report);

}  // namespace ttrace::audit
