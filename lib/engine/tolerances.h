// Gives every measured tensor its tolerance.
#pragma once

#include <vector>

#include "engine/pairing.h"
#include "report/compare_report.h"

namespace ttrace::engine {

// results[i] belongs to pairs[i]; those with a comparison get its tolerance: exact for integers, by
// replay where the optimizer was replayed, by noise where a noise run has the tensor, else the
// fallback.
void resolve_tolerances(const trace::Manifest& reference, const std::vector<Pair>& pairs,
                        std::vector<report::Result>& results);

}  // namespace ttrace::engine
