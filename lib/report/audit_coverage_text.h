// How much of a step an audit has judged, for people.
#pragma once

#include <string>
#include <vector>

#include "audit/verdict.h"

namespace ttrace::report {

// "685 of 905 tensors follow from what they were computed from (76 %)", and what is excused.
std::string describe_coverage(const audit::AuditReport& report);

// "the gradients of 12 of 148 parameters were not judged"
std::string describe_unjudged_gradients(const audit::StepCoverage& step);

// What was not checked, the most serious first.
std::vector<std::string> describe_unchecked(const audit::AuditReport& report);

}  // namespace ttrace::report
