// Reads the report of a comparison that `ttrace localize` explains.
#pragma once

#include <string>
#include <string_view>

#include "localize/localization.h"

namespace ttrace::report {

// Reads a JSON report of version 2. Throws an input error with the JSON pointer for anything else.
localize::ReportedComparison parse_reported(std::string_view text, const std::string& file);

}  // namespace ttrace::report
