// The answer of `ttrace audit` for people.
#pragma once

#include <ostream>

#include "audit/verdict.h"
#include "report/terminal_text.h"
#include "report/text_report.h"

namespace ttrace::report {

// The answer as text: the verdict, the findings, what could not be judged and why. `all`: every
// finding in full and every tensor.
void write_audit(const audit::AuditReport& report, const TextStyle& style, std::ostream& out);

}  // namespace ttrace::report
