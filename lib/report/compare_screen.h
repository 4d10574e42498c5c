// The first screen of a comparison's report.
#pragma once

#include <ostream>
#include <vector>

#include "comparison/result.h"
#include "report/finding_groups.h"
#include "report/first_line.h"
#include "report/terminal_text.h"
#include "report/text_report.h"

namespace ttrace::report {

// Writes the first screen: the answer and a few labelled lines.
void write_screen(const comparison::CompareReport& report, const std::vector<FindingGroup>& groups,
                  const WrittenFirstLine& first, const TextStyle& style, std::ostream& out);

}  // namespace ttrace::report
