// The answer of `ttrace selftest` as JSON (schemas/selftest-v1.md).
#pragma once

#include <string>
#include <string_view>

#include "comparison/selftest_report.h"

namespace ttrace::report {

inline constexpr std::string_view kSelftestSchema = "ttrace.selftest/1";

// The answer of `ttrace selftest` as JSON, one group or tensor per line.
std::string selftest_json(const comparison::SelftestReport& report);

}  // namespace ttrace::report
