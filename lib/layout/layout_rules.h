// Rules that correct the layouts of a manifest when it is compared, so that a job need not record
// its trace again (schemas/layout-rules-v1.md).
#pragma once

#include <string>
#include <string_view>

#include "trace/manifest.h"

namespace ttrace::layout {

// `manifest` with the rules of the JSON document `text` applied to it; the first rule that matches
// a tensor counts. A rule that changes how a tensor is cut and gives no shape keeps the ranks'
// local shape and works the whole one out. `file` is named in errors: everything that
// parse_manifest refuses, a rule that matches no tensor, and a shape that cannot be worked out.
trace::Manifest with_layout_rules(const trace::Manifest& manifest, std::string_view text,
                                  const std::string& file);

}  // namespace ttrace::layout
