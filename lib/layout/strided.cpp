#include "layout/strided.h"

#include "layout/shard.h"

namespace ttrace::layout {

Ranges strided_part(std::uint64_t stride, std::uint64_t extent, std::uint64_t parts,
                    std::uint64_t index) {
  Ranges held;
  for (std::uint64_t c = 0; c < stride; ++c) {
    const Range outer = chunk(extent, stride, c);
    if (outer.length == 0) break;  // so are all that follow
    const Range inner = chunk(outer.length, parts, index);
    append(held, {outer.start + inner.start, inner.length});
  }
  return held;
}

}  // namespace ttrace::layout
