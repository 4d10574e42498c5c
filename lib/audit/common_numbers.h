// Numbers that a script gives all micro-batches of a step alike.
#pragma once

#include <vector>

#include "audit/record.h"
#include "specification/specification.h"
#include "trace/source.h"

namespace ttrace::audit {

// Adds a broken check to every number that the specification calls uniform and that differs from
// the median over the micro-batches of its step: one wrong number of three stands out. The common
// value itself is given, and nothing checks it.
void check_common_numbers(const trace::Source& run,
                          const specification::Specification& specification,
                          std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
