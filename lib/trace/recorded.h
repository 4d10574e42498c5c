// Distinguishes a tensor that is missing from one that the collector was not asked to record.
#pragma once

#include <optional>

#include "trace/manifest.h"

namespace ttrace::trace {

// Whether the collector was asked for a tensor of this key, by `run.recorded`: its kind, its step,
// and its module (the one that a value is named after, the one that owns a parameter). Nothing
// where the manifest has no `run.recorded`.
std::optional<bool> was_asked_for(const Manifest& manifest, const TensorKey& key);

}  // namespace ttrace::trace
