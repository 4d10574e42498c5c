// The answer of `ttrace selftest`: for programs (schemas/selftest-v1.md) and for people.
#pragma once

#include <ostream>
#include <string>

#include "comparison/selftest_report.h"

namespace ttrace::report {

inline constexpr std::string_view kSelftestSchema = "ttrace.selftest/1";

// JSON text, one group and one tensor per line.
std::string selftest_json(const comparison::SelftestReport& report);

// `all`: lists every miss, not only the first few.
void write_selftest(const comparison::SelftestReport& report, bool all, std::ostream& out);

}  // namespace ttrace::report
