// One dimension cut into parts, one after the other.
#pragma once

#include <cstdint>

#include "layout/ranges.h"
#include "trace/placement.h"

namespace ttrace::layout {

// Part `index` of `parts` in torch.chunk's order: parts of ⌈extent / parts⌉, the last ones smaller
// or empty.
Range chunk(std::uint64_t extent, std::uint64_t parts, std::uint64_t index);

// Part `index` of a dimension of `extent` elements cut into parts of the given sizes. Throws an
// input error if they do not add up to `extent`.
Range given_part(const std::vector<std::uint64_t>& sizes, std::uint64_t extent,
                 std::uint64_t index);

// Part `index` of `parts`: by given sizes, or torch.chunk's.
Ranges shard_part(const trace::Shard& shard, std::uint64_t extent, std::uint64_t parts,
                  std::uint64_t index);

}  // namespace ttrace::layout
