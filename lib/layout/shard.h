// One dimension cut into parts.
#pragma once

#include <cstdint>

#include "trace/placement.h"

namespace ttrace::layout {

struct Range {
  std::uint64_t start = 0;
  std::uint64_t length = 0;

  bool operator==(const Range&) const = default;
};

// Part `index` of `parts` of a dimension of `extent` elements: the given sizes, or torch.chunk's
// order (parts of ⌈extent / parts⌉, the last ones smaller or empty). Throws an input error if given
// sizes do not have `parts` entries or do not add up to `extent`.
Range shard_range(const trace::Shard& shard, std::uint64_t extent, std::uint64_t parts,
                  std::uint64_t index);

}  // namespace ttrace::layout
