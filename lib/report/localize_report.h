// The answer of `ttrace localize`: for programs (schemas/localize-v1.md) and for people. Also reads
// the report of a comparison that it explains.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "localize/isolation_plan.h"
#include "localize/localization.h"
#include "report/terminal_text.h"
#include "report/text_report.h"

namespace ttrace::report {

inline constexpr std::string_view kLocalizeSchema = "ttrace.localize/1";

// The answer as JSON, one finding per line.
std::string localize_json(const localize::LocalizeReport& report);

// The answer as text. `all`: every finding and every tensor of a layer that was asked for.
void write_localize(const localize::LocalizeReport& report, const TextStyle& style,
                    std::ostream& out);

}  // namespace ttrace::report
