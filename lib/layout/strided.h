// DTensor's _StridedShard: what a rank holds when a later mesh axis cut the dimension first (FSDP2
// over tensor parallelism).
#pragma once

#include <cstdint>

#include "layout/ranges.h"

namespace ttrace::layout {

// Part `index` of `parts` of each of `stride` chunks of `extent` elements, one after the other;
// both cuts are torch.chunk's
// (torch.distributed.tensor.placement_types._StridedShard._split_tensor).
// Throws an input error if there are more than kMostRanges chunks.
Ranges strided_part(std::uint64_t stride, std::uint64_t extent, std::uint64_t parts,
                    std::uint64_t index);

}  // namespace ttrace::layout
