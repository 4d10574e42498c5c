#include "layout/shard.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"

namespace ttrace::layout {

Range chunk(std::uint64_t extent, std::uint64_t parts, std::uint64_t index) {
  const std::uint64_t width = extent / parts + (extent % parts != 0 ? 1 : 0);
  // index · width can only overflow where the part is empty anyway.
  const std::uint64_t start = std::min(base::checked_mul(index, width).value_or(extent), extent);
  return {start, std::min(width, extent - start)};
}

Range given_part(const std::vector<std::uint64_t>& sizes, std::uint64_t extent,
                 std::uint64_t index) {
  Range range;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i == index) range = {sum, sizes[i]};
    const auto next = base::checked_add(sum, sizes[i]);
    if (!next) throw base::input_error("the shard sizes overflow 64 bits");
    sum = *next;
  }
  if (sum != extent) {
    throw base::input_error("the shard sizes add up to ", sum, ", but there are ", extent,
                            " elements to cut");
  }
  return range;
}

Ranges shard_part(const trace::Shard& shard, std::uint64_t extent, std::uint64_t parts,
                  std::uint64_t index) {
  Ranges part;
  append(part, shard.sizes ? given_part(*shard.sizes, extent, index) : chunk(extent, parts, index));
  return part;
}

}  // namespace ttrace::layout
