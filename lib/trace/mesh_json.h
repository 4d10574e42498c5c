// Meshes in JSON documents: the manifest's, and those of layout rules.
#pragma once

#include "base/strict_json.h"
#include "trace/manifest.h"

namespace ttrace::trace {

// Throws on an axis of no size or that stands twice, and on ranks that are not one for each
// coordinate.
Mesh mesh_from(const base::JsonCursor& object);

}  // namespace ttrace::trace
