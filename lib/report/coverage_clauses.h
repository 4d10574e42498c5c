// What a comparison did not check, or checked with little to say, as clauses of the first line.
#pragma once

#include <vector>

#include "comparison/result.h"
#include "report/first_line.h"

namespace ttrace::report {

// The most serious first: unreadable, left out by a recording, not judged, not finite, selected by
// a person; then facts about the two runs.
std::vector<Clause> coverage_clauses(const comparison::CompareReport& report);

}  // namespace ttrace::report
