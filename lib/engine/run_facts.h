// What the report says about the runs themselves.
#pragma once

#include <string>
#include <vector>

#include "report/compare_report.h"
#include "trace/source.h"

namespace ttrace::engine {

report::TraceFacts facts_of(const trace::Source& source);

// A disturbed run in the place of a clean one, or the other way round, makes every tolerance wrong.
std::vector<std::string> disturbance_warnings(const trace::Source& reference,
                                              const trace::Source& candidate,
                                              const std::vector<const trace::Source*>& noise);

// Runs that were not rewritten by one and the same plan have nothing to do with each other.
std::vector<std::string> plan_warnings(const trace::Source& reference,
                                       const trace::Source& candidate,
                                       const std::vector<const trace::Source*>& noise);

}  // namespace ttrace::engine
