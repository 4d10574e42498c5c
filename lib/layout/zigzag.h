// Context parallelism's order of chunks, by which causal attention is equal work for all ranks.
#pragma once

#include <cstdint>

#include "layout/ranges.h"

namespace ttrace::layout {

// Chunks `index` and 2·parts-1-index of the 2·parts chunks (torch.chunk) of `extent` elements.
Ranges zigzag_part(std::uint64_t extent, std::uint64_t parts, std::uint64_t index);

}  // namespace ttrace::layout
