// What every placement that cuts dimensions one by one leaves to a coordinate. A new such placement
// is a file with its function, and a line here.
#pragma once

#include <cstdint>

#include "layout/ranges.h"
#include "tensor/box.h"
#include "trace/placement.h"

namespace ttrace::layout {

// Whether coordinates of an axis with this placement hold different elements.
bool cuts(const trace::Placement& placement);

// Throws an input error if the placement lists numbers for more or fewer than `parts` coordinates.
void require_fitting_lists(const trace::Placement& placement, std::uint64_t parts);

// Replaces `held` (one entry per dimension) by what coordinate `index` of `parts` keeps of it.
// Placements that cut nothing, and flat and rows, which apply to the array as a whole, leave it.
// Throws an input error if the placement contradicts the number of elements held.
void apply_cut(const trace::Placement& placement, std::uint64_t parts, std::uint64_t index,
               std::vector<Ranges>& held);

}  // namespace ttrace::layout
