// The first screen of the answer of `ttrace localize`.
#pragma once

#include <ostream>
#include <string>

#include "localize/localization.h"
#include "report/terminal_text.h"
#include "report/text_report.h"

namespace ttrace::report {

// The first screen; `first_line` has its colour.
void write_localize_screen(const localize::LocalizeReport& report, const std::string& first_line,
                           const TextStyle& style, std::ostream& out);

}  // namespace ttrace::report
