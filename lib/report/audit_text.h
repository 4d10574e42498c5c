// The sections of the answer of `ttrace audit`.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "audit/verdict.h"
#include "report/first_line.h"

namespace ttrace::report {

FirstLine audit_answer(const audit::AuditReport& report);

// "fc · output · step 0: it differs (2 findings, 8 tensors downstream)". There must be findings.
std::string describe_first_broken(const audit::AuditReport& report);

// "worst 0.41 of its bound; a factor of 1.004 in 9 of 10 gradients would show".
std::string describe_audit_sharpness(const audit::AuditReport& report);

}  // namespace ttrace::report
