// The first line of the text report, which is the answer: the verdict, how sharp the check was, and
// where the run goes wrong first.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "report/compare_report.h"
#include "report/finding_groups.h"
#include "report/text_report.h"

namespace ttrace::report {

// Ends with a line break. `groups`: all of the report's.
void write_answer(const CompareReport& report, const std::vector<FindingGroup>& groups,
                  const TextStyle& style, std::ostream& out);

// 0.52 as "52 %", 0.0012 as "0.12 %".
std::string percent(double share);

}  // namespace ttrace::report
