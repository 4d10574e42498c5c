// One answer for the whole run.
#pragma once

#include <cstddef>

#include "report/compare_report.h"

namespace ttrace::engine {

// Sets `verdict` and `why` from counts, results and the numbers of ranks that could not be read. A
// run that was not really checked is inconclusive, never a match.
void decide(std::size_t lost_reference_ranks, std::size_t lost_candidate_ranks,
            report::CompareReport& out);

}  // namespace ttrace::engine
