// The answer of `ttrace localize`: for programs (schemas/localize-v1.md) and for people. Also reads
// the report of a comparison that it explains.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "audit/localization.h"
#include "report/text_report.h"

namespace ttrace::report {

inline constexpr std::string_view kLocalizeSchema = "ttrace.localize/1";

// Reads a JSON report of version 2. Throws an input error with the JSON pointer for anything else.
audit::ReportedComparison parse_reported(std::string_view text, const std::string& file);

// The answer as JSON, one finding per line.
std::string localize_json(const audit::LocalizeReport& report);

// The plan of a second pair of runs, as schemas/plan-v1.md says.
std::string plan_json(const audit::RewritingPlan& plan);

// The answer as text. `all`: every finding and every tensor of a layer that was asked for.
void write_localize(const audit::LocalizeReport& report, const TextStyle& style, std::ostream& out);

}  // namespace ttrace::report
