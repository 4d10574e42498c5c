// A comparison that was told to end before everything was measured.
#pragma once

#include <vector>

#include "report/compare_report.h"

namespace ttrace::engine {

// The result as if nothing were known of it: skipped, because of the interruption.
void mark_interrupted(report::Result& result);

// Marks those that are still to be measured.
void mark_unmeasured(std::vector<report::Result>& results);

// How far it came, or nothing if no tensor is marked.
std::optional<report::Interruption> interruption_of(const std::vector<report::Result>& results);

}  // namespace ttrace::engine
