// Findings of a comparison that are none: what a tensor reads has diverged, and it is what its
// expression makes of that.
#pragma once

#include <vector>

#include "audit/record.h"
#include "localize/localization.h"
#include "specification/specification.h"
#include "trace/manifest.h"

namespace ttrace::audit {

// Moves the findings of `report` that are plain consequences to its `consequences`; one finding
// stays at least. A finding is one if of every tensor of it (`judged` has them, of the candidate):
// its expression was judged and holds on the run's own values, and reads a tensor that is bad.
// Tensors whose layout is declared wrongly are not bad for what reads them.
void set_consequences_apart(const specification::Specification& specification,
                            const trace::Manifest& candidate,
                            const std::vector<AuditedTensor>& judged,
                            localize::LocalizeReport& report);

}  // namespace ttrace::audit
