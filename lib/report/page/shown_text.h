// An answer for a terminal, as its file has it.
#pragma once

#include <string>

#include "report/page/page_answer.h"

namespace ttrace::report {

// The answer as one line; and the answer, what was not checked, the findings.
std::string shown_line(const PageAnswer& answer);
std::string shown_text(const PageAnswer& answer);

}  // namespace ttrace::report
