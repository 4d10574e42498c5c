// Checks that the reference breaks too.
#pragma once

#include <vector>

#include "audit/record.h"

namespace ttrace::audit {

// A check that the reference breaks too says nothing of the candidate, for the specification does
// not hold for this implementation: makes it not replayable. Both are of the same modules.
void discount_what_the_reference_breaks(const std::vector<AuditedTensor>& reference,
                                        std::vector<AuditedTensor>& candidate);

}  // namespace ttrace::audit
