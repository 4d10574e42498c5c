// One finding in words.
#pragma once

#include <cstddef>
#include <ostream>

#include "comparison/result.h"
#include "report/finding_groups.h"

namespace ttrace::report {

// The block with all evidence of the group's finding that is shown, or of all of them, folded to
// `width` columns (0: not). `number`: as which it is listed, from 1.
struct FindingStyle {
  std::size_t number = 1;
  std::size_t width = 0;
  bool all = false;
};
void write_findings_of(const comparison::CompareReport& report, const FindingGroup& group,
                       const FindingStyle& style, std::ostream& out);
// The same in one line.
void write_line_of(const comparison::CompareReport& report, const FindingGroup& group,
                   std::size_t number, std::ostream& out);

// "lr of 12 parameters", and what the runs were told.
void write_setting(const comparison::CompareReport& report,
                   const comparison::SettingDifference& setting, const FindingStyle& style,
                   std::ostream& out);

}  // namespace ttrace::report
