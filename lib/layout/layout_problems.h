// Checks the layouts of a whole manifest.
#pragma once

#include <string>
#include <vector>

#include "trace/manifest.h"

namespace ttrace::layout {

// Returns every contradiction in the manifest's layouts, one sentence each with a JSON pointer.
// Reads only the entries of index tensors, not their rows.
std::vector<std::string> layout_problems(const trace::Manifest& manifest);

}  // namespace ttrace::layout
