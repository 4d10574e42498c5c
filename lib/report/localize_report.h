// The answer of `ttrace localize` for people.
#pragma once

#include <ostream>

#include "localize/isolation_plan.h"
#include "localize/localization.h"
#include "report/terminal_text.h"
#include "report/text_report.h"

namespace ttrace::report {

// The answer as text. `all`: every finding and every tensor of a layer that was asked for.
void write_localize(const localize::LocalizeReport& report, const TextStyle& style,
                    std::ostream& out);

}  // namespace ttrace::report
