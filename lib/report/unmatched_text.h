// Tensors that only one side has, with what they may be called on the other.
#pragma once

#include <ostream>

#include "report/compare_report.h"

namespace ttrace::report {

// A few lines, or all with `all`; nothing unless both sides have tensors that the other lacks and
// some of them are alike.
void write_unmatched(const CompareReport& report, bool all, std::ostream& out);

}  // namespace ttrace::report
