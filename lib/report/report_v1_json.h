// The report in version 1, for programs that read that: schemas/report-v1.md.
#pragma once

#include <string>

#include "comparison/result.h"

namespace ttrace::report {

// What version 1 has no word for is told by the nearest: not_judged is below_noise_floor where
// numbers were compared and incomparable where not, not_recorded is skipped_by_rule. Settings and
// second suspects are left out; settings that differ are among the warnings in any version.
std::string json_text_v1(const comparison::CompareReport& report);

}  // namespace ttrace::report
