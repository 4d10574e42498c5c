// What a collector was told to record: the difference between a tensor that is missing and one that
// nobody asked for.
#pragma once

#include <optional>

#include "trace/manifest.h"

namespace ttrace::trace {

// Whether the trace was to have a tensor of this key, by `run.recorded`: its kind, its step, and
// the module that it belongs to (of a value the module it is named after, of a parameter and what
// is named after it the module that owns it). Nothing where the manifest does not say.
std::optional<bool> was_asked_for(const Manifest& manifest, const TensorKey& key);

}  // namespace ttrace::trace
