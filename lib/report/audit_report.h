// The answer of `ttrace audit`: for programs (schemas/audit-v1.md) and for people.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "audit/verdict.h"
#include "report/json/compare_report_json.h"
#include "report/terminal_text.h"
#include "report/text_report.h"

namespace ttrace::report {

inline constexpr std::string_view kAuditSchema = "ttrace.audit/1";

// The answer as JSON, one tensor per line.
std::string audit_json(const audit::AuditReport& report, Detail detail = Detail::kAll);

// The answer as text: the verdict, the findings, what could not be judged and why. `all`: every
// finding in full and every tensor.
void write_audit(const audit::AuditReport& report, const TextStyle& style, std::ostream& out);

}  // namespace ttrace::report
