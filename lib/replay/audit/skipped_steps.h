// Steps that a GradScaler skipped: their gradients grew too large for their type, which is how the
// scaler finds a scale, and no fault of the run.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "replay/audit/record.h"
#include "replay/primitives/value.h"
#include "trace/manifest.h"

namespace ttrace::replay {

// The steps of the run that were skipped, by the settings of their optimizers.
std::set<std::uint64_t> skipped_steps(const trace::Manifest& manifest);

// Whether a tensor that is not finite only grew too large for its type: `expected` is what it
// should be, `leaves` what it was computed from.
bool has_overflowed(const trace::TensorEntry& entry, const std::vector<Value>& leaves,
                    const Value& expected);

// Marks the gradients of skipped steps that are not finite: they overflowed, or follow from such,
// and what holds of them says nothing. One that should have been finite stays broken.
void mark_overflows(const trace::Manifest& manifest, std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::replay
