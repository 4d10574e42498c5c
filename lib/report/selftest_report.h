// The answer of `ttrace selftest`: for programs (schemas/selftest-v1.md) and for people.
#pragma once

#include <ostream>
#include <string>

#include "comparison/selftest_report.h"

namespace ttrace::report {

inline constexpr std::string_view kSelftestSchema = "ttrace.selftest/1";

// The answer as JSON, one group or tensor per line.
std::string selftest_json(const comparison::SelftestReport& report);

// The answer as text: the detection limit, a table, and the tensors that check nothing. `all`:
// lists every missed fault, not only the first few.
void write_selftest(const comparison::SelftestReport& report, bool all, std::ostream& out);

}  // namespace ttrace::report
