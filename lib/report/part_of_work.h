// The part of a divided comparison in its JSON report: written, and read by the merge of all parts.
#pragma once

#include <string>
#include <string_view>

#include "base/strict_json.h"
#include "comparison/part_of_work.h"

namespace ttrace::report {

// Compact JSON, and its inverse: throws an input error with the pointer for everything else.
std::string comparison_id_text(const comparison::ComparisonId& id);
comparison::ComparisonId comparison_id_from(const base::JsonCursor& json);

// Of a report that was written as JSON; throws an input error naming `file`.
comparison::PartOfWork parse_part(std::string_view report, const std::string& file);

}  // namespace ttrace::report
