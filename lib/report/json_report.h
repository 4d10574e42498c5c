// The report for programs: schemas/report-v2.md, and schemas/report-v1.md for those that read that.
#pragma once

#include <string>

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

}  // namespace ttrace::report
