// Numbers that a script gives all micro-batches of a step alike.
#pragma once

#include <vector>

#include "audit/record.h"
#include "specification/specification.h"
#include "trace/source.h"

namespace ttrace::audit {

// Adds a check that does not hold to every number that the specification calls uniform and that is
// another one than in the other micro-batches of its step. The middle one of them counts, so that
// one wrong number of three stands out. Which number it is remains given.
void check_common_numbers(const trace::Source& run,
                          const specification::Specification& specification,
                          std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
