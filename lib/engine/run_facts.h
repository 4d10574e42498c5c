// What the report says about the runs themselves.
#pragma once

#include <string>
#include <vector>

#include "report/compare_report.h"
#include "trace/source.h"

namespace ttrace::engine {

report::TraceFacts facts_of(const trace::Source& source);

// Runs that were not rewritten by one and the same plan have nothing to do with each other.
std::vector<std::string> plan_warnings(const trace::Source& reference,
                                       const trace::Source& candidate,
                                       const std::vector<const trace::Source*>& noise);

// Those, and one where a reference of many ranks and a candidate of one look swapped.
std::vector<std::string> run_warnings(const trace::Source& reference,
                                      const trace::Source& candidate,
                                      const std::vector<const trace::Source*>& noise);

// The kinds of a training step that neither run has: what they would show is not checked.
std::vector<trace::Kind> kinds_in_neither(const trace::Manifest& reference,
                                          const trace::Manifest& candidate);

}  // namespace ttrace::engine
