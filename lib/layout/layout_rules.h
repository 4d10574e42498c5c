// Corrects the layouts of a whole manifest by rules.
#pragma once

#include <string>
#include <string_view>

#include "trace/manifest.h"

namespace ttrace::layout {

// Returns `manifest` with the rules of the JSON document `text` applied to it
// (schemas/rules-v1.md), so that a job need not record its trace again. The first rule that matches
// a tensor counts. If a rule changes how a tensor is cut and gives no shape, the ranks' shards keep
// theirs, and the shape of the whole follows from them. Throws an input error naming `file` for
// everything that parse_manifest refuses, a rule that matches no tensor, and a shape that does not
// follow.
trace::Manifest with_layout_rules(const trace::Manifest& manifest, std::string_view text,
                                  const std::string& file);

}  // namespace ttrace::layout
