// What JSON reports say of one tensor and of its causes (schemas/report-v2.md).
#pragma once

#include <cstddef>

#include "comparison/result.h"
#include "localize/place.h"
#include "report/json/report_text_json.h"

namespace ttrace::report {

json key_json(const trace::TensorKey& key);

// The place in the code at which a finding points: `kind`, `of`.
json code_place_json(const localize::Place& place);

// Adds where in the step and the model a tensor is: `phase`, `module`, and `layer` inside one.
void add_position(const trace::TensorKey& key, json& result);

// The shards of the candidate that hold some of the difference, with their shares of its square,
// the largest first, as far as `most` ranks go; null without a difference.
json shards_json(const comparison::TensorComparison& result, std::size_t most_ranks);

json causes_json(const std::vector<answer::Cause>& causes);

json rejected_json(const std::vector<answer::RejectedCause>& rejected);

// The routing flips of one router.
json router_json(const comparison::RouterFlips& router);

// The flips of one gradient.
json kink_json(const comparison::KinkFlips& kink);

// The result of one tensor, with at most so many of the slices beyond their tolerance.
json result_json(const comparison::TensorComparison& result, std::size_t most_slices);

}  // namespace ttrace::report
