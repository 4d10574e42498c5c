// What `ttrace localize` needs of a comparison that it made itself: what it would read in the
// report of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "comparison/result.h"
#include "localize/localization.h"

namespace ttrace::report {

// `file` names the comparison in messages.
localize::ReportedComparison as_reported(const comparison::CompareReport& report, std::string file);

// "lr of 3 parameters: reference 0.1, candidate 0.2".
std::string setting_title(std::string_view name, std::uint64_t parameters,
                          std::string_view reference, std::string_view candidate);

}  // namespace ttrace::report
