// Numbers that a job records by hand: the data flow knows nothing of them, so the order of
// execution stands in.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "verdict/dataflow.h"

namespace ttrace::verdict {

// For every `scalar` with an order, the last activation, gradient of one or loss before it in the
// same step and micro-batch on the same ranks; nothing for all other nodes. A scalar without a
// micro-batch comes after those of all.
std::vector<std::optional<std::size_t>> last_before_scalars(const std::vector<Node>& nodes);

}  // namespace ttrace::verdict
