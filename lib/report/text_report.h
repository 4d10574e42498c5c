// Reports for people: the answer first, then the evidence, then the notes. Also text folded to the
// width of a terminal, and the line that shows progress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "comparison/result.h"
#include "comparison/selftest_report.h"
#include "report/terminal_text.h"

namespace ttrace::report {

// Writes the report of a comparison.
void write_text(const comparison::CompareReport& report, const TextStyle& style, std::ostream& out);

}  // namespace ttrace::report
