// The report for programs: schemas/report-v1.md.
#pragma once

#include <string>

#include "report/compare_report.h"

namespace ttrace::report {

inline constexpr std::string_view kReportSchema = "ttrace.report/1";

// JSON text, one result per line. Numbers that are not finite are the strings "nan", "inf", "-inf".
std::string json_text(const CompareReport& report);

}  // namespace ttrace::report
