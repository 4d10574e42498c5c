// The report for programs, schemas/report-v2.md and the older schemas/report-v1.md; and reading
// back the report of one share of a divided comparison.
#pragma once

#include <string>
#include <string_view>

#include "base/strict_json.h"
#include "comparison/part_of_work.h"
#include "comparison/result.h"

namespace ttrace::report {

inline constexpr std::string_view kReportSchema = "ttrace.report/2";
inline constexpr std::string_view kReportSchema1 = "ttrace.report/1";

struct JsonStyle {
  int version = 2;  // 1 or 2
  // Every part of every tensor that was kept, and not only the worst four of findings; version 1
  // has the worst 16 of every tensor.
  bool all_slices = false;
};

// JSON text, one result per line. Numbers that are not finite are the strings "nan", "inf", "-inf".
std::string json_text(const comparison::CompareReport& report, const JsonStyle& style = {});

// Compact JSON, and its inverse: throws an input error with the pointer for everything else.
std::string comparison_id_text(const comparison::ComparisonId& id);
comparison::ComparisonId comparison_id_from(const base::JsonCursor& json);

// Of a report that was written as JSON; throws an input error naming `file`.
comparison::PartOfWork parse_share(std::string_view report, const std::string& file);

}  // namespace ttrace::report
