// The answer of `ttrace selftest` for people.
#pragma once

#include <ostream>

#include "comparison/selftest_report.h"

namespace ttrace::report {

// Writes the answer of `ttrace selftest`: the detection limit, a table, and the tensors that check
// nothing. `all`: lists every missed fault, not only the first few.
void write_selftest(const comparison::SelftestReport& report, bool all, std::ostream& out);

}  // namespace ttrace::report
