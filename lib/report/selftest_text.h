// The answer of `ttrace selftest` for people: the detection limit, a table, what checks nothing.
#pragma once

#include <ostream>

#include "comparison/selftest_report.h"

namespace ttrace::report {

// `all`: lists every miss, not only the first few.
void write_selftest(const comparison::SelftestReport& report, bool all, std::ostream& out);

}  // namespace ttrace::report
