// Gives every measured tensor its tolerance, and judges its parts where the noise is known.
#pragma once

#include <vector>

#include "engine/pairing.h"
#include "report/compare_report.h"
#include "tolerance/policy.h"

namespace ttrace::engine {

// results[i] belongs to pairs[i]; those with a comparison get its tolerance: exact for integers, by
// replay where the optimizer was replayed, by noise where it is known, else the fallback; `rules`
// change the latter two. The sums by cell and the noise by cell are let go of.
void resolve_tolerances(const trace::Manifest& reference, const std::vector<Pair>& pairs,
                        const tolerance::Policy& rules, std::vector<report::Result>& results);

}  // namespace ttrace::engine
