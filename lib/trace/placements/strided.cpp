#include "trace/placements/strided.h"

#include "base/strict_json.h"
#include "trace/placements/shard.h"

namespace ttrace::trace {

using base::concat;
using tensor::Range;
using tensor::Ranges;

bool Strided::is_spelled(const base::JsonCursor& value) {
  return has_member(value, kKeyword) && has_member(value, "stride");
}

Strided Strided::parse(const base::JsonCursor& value) {
  const std::uint64_t dim = value.require(kKeyword).as_count();
  const base::JsonCursor stride = value.require("stride");
  value.allow_keys({kKeyword, "stride"});
  if (stride.as_count() == 0) throw stride.error("a stride of 0");
  return {dim, stride.as_count()};
}

std::string Strided::json() const {
  return concat("{\"shard\":", dim, ",\"stride\":", stride, "}");
}

std::string Strided::describe() const { return concat("shard ", dim, " (stride ", stride, ")"); }

std::string Strided::describe_over(const std::string& axis) const {
  return concat("dimension ", dim, " cut over ", axis, " with stride ", stride);
}

Ranges Strided::part(std::uint64_t extent, std::uint64_t count, std::uint64_t index) const {
  Ranges held;
  const std::uint64_t width = chunk(extent, stride, 0).length;
  if (width > 0 && extent / width > tensor::kMostRanges) {
    throw base::input_error("a stride of ", stride, " cuts ", extent, " elements into more than ",
                            tensor::kMostRanges, " chunks");
  }
  for (std::uint64_t c = 0; c < stride; ++c) {
    const Range outer = chunk(extent, stride, c);
    if (outer.length == 0) break;  // so are all that follow
    const Range inner = chunk(outer.length, count, index);
    append(held, {outer.start + inner.start, inner.length});
  }
  return held;
}

}  // namespace ttrace::trace
