#include "layout/shard.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace ttrace::layout {
namespace {

Range given_range(const std::vector<std::uint64_t>& sizes, std::uint64_t extent,
                  std::uint64_t parts, std::uint64_t index) {
  if (sizes.size() != parts) {
    throw base::input_error(sizes.size(), " shard sizes for ", parts, " coordinates");
  }
  Range range;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i == index) range = {total, sizes[i]};
    const auto sum = base::checked_add(total, sizes[i]);
    if (!sum) throw base::input_error("the shard sizes overflow 64 bits");
    total = *sum;
  }
  if (total != extent) {
    throw base::input_error("the shard sizes add up to ", total, ", but there are ", extent,
                            " elements to cut");
  }
  return range;
}

}  // namespace

Range shard_range(const trace::Shard& shard, std::uint64_t extent, std::uint64_t parts,
                  std::uint64_t index) {
  if (shard.sizes) return given_range(*shard.sizes, extent, parts, index);
  const std::uint64_t width = extent / parts + (extent % parts != 0 ? 1 : 0);
  // index · width can only overflow where the part is empty anyway.
  const std::uint64_t start = std::min(base::checked_mul(index, width).value_or(extent), extent);
  return {start, std::min(width, extent - start)};
}

}  // namespace ttrace::layout
