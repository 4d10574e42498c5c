// The second opinion in the JSON report: schemas/report-v2.md.
#pragma once

#include <nlohmann/json.hpp>

#include "report/compare_report.h"

namespace ttrace::report {

// A result's member `truth`.
nlohmann::ordered_json tensor_truth_json(const TensorTruth& truth);

// The report's. It must have one.
nlohmann::ordered_json truth_json(const CompareReport& report);

}  // namespace ttrace::report
