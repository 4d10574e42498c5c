// Steps that a GradScaler skipped: their gradients grew too large for their type, which is how the
// scaler finds a scale, and no fault of the run.
#pragma once

#include <vector>

#include "audit/record.h"
#include "specification/primitives/value.h"
#include "trace/manifest.h"

namespace ttrace::audit {

// Whether a tensor that is not finite only grew too large for its type: `expected` is what it
// should be, `leaves` what it was computed from.
bool has_overflowed(const trace::TensorEntry& entry,
                    const std::vector<specification::Value>& leaves,
                    const specification::Value& expected);

// Marks the gradients of skipped steps that are not finite: they or their inputs overflowed, so
// that checks of them prove nothing. One that should have been finite stays broken.
void mark_overflows(const trace::Manifest& manifest, std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
