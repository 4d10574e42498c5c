// A finding of a comparison, with all evidence or in one line.
#pragma once

#include <cstddef>
#include <ostream>

#include "comparison/result.h"
#include "report/finding_groups.h"

namespace ttrace::report {

struct FindingStyle {
  std::size_t number = 1;  // in the list of findings
  std::size_t width = 0;   // columns to fold to; 0: do not fold
  bool all = false;        // all findings of a group, not only the one that is shown
};

// Writes a group of findings with all evidence.
void write_findings_of(const comparison::CompareReport& report, const FindingGroup& group,
                       const FindingStyle& style, std::ostream& out);

// Writes it in one line.
void write_line_of(const comparison::CompareReport& report, const FindingGroup& group,
                   std::size_t number, std::ostream& out);

// Writes an optimizer setting that differs: "lr of 12 parameters", and its values.
void write_setting(const comparison::CompareReport& report,
                   const comparison::SettingDifference& setting, const FindingStyle& style,
                   std::ostream& out);

}  // namespace ttrace::report
