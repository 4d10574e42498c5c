#include "layout/strided.h"

#include "base/error.h"
#include "layout/shard.h"

namespace ttrace::layout {

Ranges strided_part(std::uint64_t stride, std::uint64_t extent, std::uint64_t parts,
                    std::uint64_t index) {
  Ranges held;
  const std::uint64_t width = chunk(extent, stride, 0).length;
  if (width > 0 && extent / width > kMostRanges) {
    throw base::input_error("a stride of ", stride, " cuts ", extent, " elements into more than ",
                            kMostRanges, " chunks");
  }
  for (std::uint64_t c = 0; c < stride; ++c) {
    const Range outer = chunk(extent, stride, c);
    if (outer.length == 0) break;  // so are all that follow
    const Range inner = chunk(outer.length, parts, index);
    append(held, {outer.start + inner.start, inner.length});
  }
  return held;
}

}  // namespace ttrace::layout
