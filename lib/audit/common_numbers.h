// Numbers that a script gives: to all micro-batches of a step alike, and as factors of losses.
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

// Adds a broken check to every number that losses or gradients are multiplied or divided by and
// that is NaN, infinite or negative: what a script multiplies a loss or the main gradients by, and
// numbers that the specification (may be null) calls uniform. Of the latter only integers must not
// be negative: others may be anything.
void check_factors(const trace::Source& run, const specification::Specification* specification,
                   std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
