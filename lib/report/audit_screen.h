// The first screen of the answer of `ttrace audit`.
#pragma once

#include <ostream>
#include <string>

#include "audit/verdict.h"
#include "report/terminal_text.h"
#include "report/text_report.h"

namespace ttrace::report {

// The sentence of a finding.
std::string audit_headline(const audit::AuditReport& report, const audit::AuditFinding& finding);

// The first screen; `first_line` has its colour.
void write_audit_screen(const audit::AuditReport& report, const std::string& first_line,
                        const TextStyle& style, std::ostream& out);

}  // namespace ttrace::report
