// One tensor's result in the JSON report: schemas/report-v2.md. For files that write JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "report/compare_report.h"

namespace ttrace::report {

struct ResultStyle {
  std::string_view outcome;  // the name to write for result.outcome
  bool version_2 = true;     // with an id, and without members that say nothing or the same twice
  std::size_t most_slices = 4;  // of those beyond their tolerance
};

nlohmann::ordered_json result_json(const Result& result, const ResultStyle& style);

}  // namespace ttrace::report
