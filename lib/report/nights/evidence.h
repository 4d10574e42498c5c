// What a report says of why a tensor is wrong and how far, as it is compared with another night's
// report or with the bound of a known difference.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "answer/answer.h"

namespace ttrace::report {

// Why a tensor of a finding is wrong. A long report writes this of the first findings of a group
// only; the others then have the causes of their group.
struct Evidence {
  // With their axes, the likeliest first: "missing_reduction over tp"; of a setting its values.
  // Without those that say only where the error is.
  std::vector<std::string> causes;
  std::vector<std::uint64_t> ranks;  // ascending; none where the report does not name them
};

// By the ids of the findings' tensors. A tensor whose causes the report does not tell is left out.
std::map<std::string, Evidence> evidence_of(const answer::Answer& answer);

// Ids of the second suspects: further off than what comes into them.
std::set<std::string> suspects_of(const answer::Answer& answer);

// Whether a value of a result is not finite on one side alone.
bool is_finite_on_one_side(const answer::AnsweredTensor& tensor);

// The error of a result over what is allowed, the largest of the tensor, its copies and its slices.
// Infinite where nothing is allowed, NaN where it was not a number. Nothing where the report has no
// such number.
std::optional<double> furthest_use(const answer::AnsweredTensor& tensor);

}  // namespace ttrace::report
