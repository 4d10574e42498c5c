// A dimension that is several things one after the other (q, k and v; gate and up), each cut on its
// own.
#pragma once

#include <cstdint>

#include "layout/ranges.h"
#include "trace/placement.h"

namespace ttrace::layout {

// Part `index` of `parts`. Throws an input error if the segments do not add up to `extent`, or the
// given parts of a segment not to the segment.
Ranges segments_part(const trace::Segments& segments, std::uint64_t extent, std::uint64_t parts,
                     std::uint64_t index);

}  // namespace ttrace::layout
