// What `ttrace localize` needs of the answer of a comparison.
#pragma once

#include <string>
#include <string_view>

#include "answer/answer.h"
#include "localize/localization.h"

namespace ttrace::report {

// `file`: where the answer is from. Throws an input error naming it for an answer of another
// command, one that lacks tensors, or ids that are none.
localize::ReportedComparison reported_of(const answer::Answer& answer, const std::string& file);
// The same of the JSON of an answer.
localize::ReportedComparison parse_reported(std::string_view text, const std::string& file);

}  // namespace ttrace::report
