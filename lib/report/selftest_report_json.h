// The answer of `ttrace selftest` as JSON (schemas/selftest-v1.md).
#pragma once

#include <string>

#include "comparison/selftest_report.h"

namespace ttrace::report {

// The answer of `ttrace selftest` as JSON, one group or tensor per line.
std::string selftest_json(const comparison::SelftestReport& report);

}  // namespace ttrace::report
