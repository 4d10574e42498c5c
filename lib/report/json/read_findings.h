// The findings of a JSON report of any command as people count them: of a comparison, alike ones
// are one.
#pragma once

#include <optional>
#include <vector>

#include "base/strict_json.h"

namespace ttrace::report {

struct ReadFinding {
  base::JsonCursor item;                  // of a group the finding that stands for it
  std::optional<base::JsonCursor> group;  // of a comparison
};

// In the order of the report, a group in the place of its first finding.
std::vector<ReadFinding> read_findings(const base::JsonCursor& root);

}  // namespace ttrace::report
