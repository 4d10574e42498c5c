// Checks that the reference breaks too.
#pragma once

#include <vector>

#include "audit/record.h"

namespace ttrace::audit {

// Makes checks of the candidate that the reference breaks too not replayable: the specification
// does not hold for this implementation, so they prove nothing. Both lists are of the same modules.
void discount_what_the_reference_breaks(const std::vector<AuditedTensor>& reference,
                                        std::vector<AuditedTensor>& candidate);

}  // namespace ttrace::audit
