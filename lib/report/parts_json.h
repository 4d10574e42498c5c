// What the parts of the JSON report have in common. For files that write JSON, and no others.
#pragma once

#include <nlohmann/json.hpp>

#include "report/compare_report.h"

namespace ttrace::report {

// One of the strings "nan", "inf", "-inf" where it is not finite.
nlohmann::ordered_json number(double value);

nlohmann::ordered_json key_json(const trace::TensorKey& key);

nlohmann::ordered_json trace_json(const TraceFacts& facts);

}  // namespace ttrace::report
