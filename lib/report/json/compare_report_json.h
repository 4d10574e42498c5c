// JSON reports: writes schemas/report-v2.md and schemas/selftest-v1.md, and reads the report of one
// share of a divided comparison.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "comparison/division.h"
#include "comparison/result.h"
#include "comparison/selftest_report.h"

namespace ttrace::report {

inline constexpr std::string_view kReportSchema = "ttrace.report/2";

// Which tensors a report lists in its results.
enum class Detail {
  kAll,
  kFindings,  // those of findings and suspects, and the one closest to its limit
};

// How many ids before or after a finding a report lists, and how many names and updates of a
// setting.
inline constexpr std::size_t kMostNeighbours = 100;

struct JsonStyle {
  // Write all slices that were kept of every tensor. If false, the worst four of each finding.
  bool all_slices = false;
  Detail detail = Detail::kAll;
};

// The report as JSON, one result per line. Numbers that are not finite become the strings "nan",
// "inf", "-inf".
std::string json_text(const comparison::CompareReport& report, const JsonStyle& style = {});

// The members that say how it was judged, which the report of `ttrace localize` repeats:
// "tolerance" and, where there are any, "layout_rules" and "map_rules"; the values as JSON.
std::map<std::string, std::string> judged_by_json(const comparison::CompareReport& report);

}  // namespace ttrace::report
