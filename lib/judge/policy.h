// What people decide on top of the estimate: rules by name and kind in a tolerance file. The first
// that matches a tensor counts; a tensor that none matches is judged by the estimate.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trace/key.h"

namespace ttrace::judge {

struct PolicyRule {
  std::vector<std::string> names;  // globs
  std::vector<trace::Kind> kinds;  // empty: any
  std::optional<double> multiplier;
  std::optional<double> floor;     // in units of ε·‖R‖
  std::optional<double> absolute;  // root mean square per element
  bool exact = false;              // every element equal
  std::string skip;                // the reason not to judge, or empty
  std::string until;               // "2027-01-31": the last day on which it is skipped, or empty
};

using Policy = std::vector<PolicyRule>;

// Index of the first rule that is about the tensor.
std::optional<std::size_t> rule_for(const Policy& policy, const trace::TensorKey& key);

// Whether `rule` still skips on `today`, a date as "2026-11-21".
bool skips(const PolicyRule& rule, const std::string& today);

// Whether `text` is a day of the calendar written as "2026-11-21".
bool is_date(const std::string& text);

}  // namespace ttrace::judge
