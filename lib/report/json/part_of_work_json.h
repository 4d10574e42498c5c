// The share of a divided comparison, in JSON.
#pragma once

#include <string>
#include <string_view>

#include "base/strict_json.h"
#include "comparison/division.h"

namespace ttrace::report {

// Compact JSON, and its inverse, which throws an input error with the JSON pointer for anything
// else.
std::string comparison_id_text(const comparison::ComparisonId& id);

comparison::ComparisonId comparison_id_from(const base::JsonCursor& json);

// Reads the share of work from a JSON report. Throws an input error naming `file` if it has none.
comparison::PartOfWork parse_share(std::string_view report, const std::string& file);

}  // namespace ttrace::report
