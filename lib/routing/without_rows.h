// A comparison that leaves rows of a tensor out.
#pragma once

#include <optional>

#include "measure/measure.h"
#include "routing/routing_flips.h"

namespace ttrace::routing {

// Returns the compared pair `of` judged again without those rows of its leading dimensions, which
// must have as many; `reason` is the judgement's. Nothing if it can no longer be read.
std::optional<comparison::TensorComparison> judged_without(const RoutingInput& input,
                                                           const comparison::TensorComparison& of,
                                                           const measure::LeftOutRows& rows);

// Rows of a module's values to which no gradient comes, in either run, count for nothing that is
// trained: capacity that is not filled, padding that a mask hides. Where a value of the forward
// diverged and nothing that it was computed from did, it is judged without the rows whose gradient
// is exactly 0 on both sides, if another row has one; within its tolerance it matches, and says how
// many rows were left out (rows_without_gradient). Whatever reads such a row for something that
// counts is a value of its own, and is judged.
void leave_out_rows_without_gradient(const RoutingInput& input, comparison::CompareReport& out);

}  // namespace ttrace::routing
