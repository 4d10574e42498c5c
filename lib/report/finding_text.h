// One finding in words.
#pragma once

#include <cstddef>
#include <ostream>

#include "report/compare_report.h"

namespace ttrace::report {

// The block with all evidence, folded to `width` columns (0: not); findings are numbered from 1 by
// their index.
void write_finding(const CompareReport& report, std::size_t index, std::size_t width,
                   std::ostream& out);
// The same in one line.
void write_finding_line(const CompareReport& report, std::size_t index, std::ostream& out);

}  // namespace ttrace::report
