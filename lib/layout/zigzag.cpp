#include "layout/zigzag.h"

#include "layout/shard.h"

namespace ttrace::layout {

Ranges zigzag_part(std::uint64_t extent, std::uint64_t parts, std::uint64_t index) {
  Ranges part;
  append(part, chunk(extent, 2 * parts, index));
  append(part, chunk(extent, 2 * parts, 2 * parts - 1 - index));
  return part;
}

}  // namespace ttrace::layout
