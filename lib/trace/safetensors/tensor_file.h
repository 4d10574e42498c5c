// Safetensors as a storage of traces: a rank's file, whose tensors have the names of the datasets
// in the manifest. Nothing is copied or converted: bytes are read where they lie.
#pragma once

#include "trace/rank_file.h"

namespace ttrace::trace::safetensors {

// Its metadata may have `ttrace_rank`, the rank that wrote it, and `ttrace_manifest`, the text of a
// manifest.
StorageKind storage();

}  // namespace ttrace::trace::safetensors
