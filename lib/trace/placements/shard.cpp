#include "trace/placements/shard.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/strict_json.h"

namespace ttrace::trace {

using base::concat;
using tensor::Range;
using tensor::Ranges;

Range chunk(std::uint64_t extent, std::uint64_t count, std::uint64_t index) {
  const std::uint64_t width = extent / count + (extent % count != 0 ? 1 : 0);
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

bool Shard::is_spelled(const base::JsonCursor& value) { return has_member(value, kKeyword); }

Shard Shard::parse(const base::JsonCursor& value) {
  Shard shard{value.require(kKeyword).as_count(), std::nullopt};
  value.allow_keys({kKeyword, "sizes"});
  if (const auto sizes = value.find("sizes")) shard.sizes = sizes->as_counts();
  return shard;
}

std::string Shard::json() const {
  return concat("{\"shard\":", dim, sizes ? concat(",\"sizes\":", json_list(*sizes)) : "", "}");
}

std::string Shard::describe() const { return concat("shard ", dim, sizes ? " (given sizes)" : ""); }

std::string Shard::describe_numbers() const {
  return sizes ? concat(" sizes ", describe_list(*sizes)) : "";
}

std::string Shard::describe_over(const std::string& axis) const {
  return concat("dimension ", dim, " cut over ", axis);
}

void Shard::require_lists_for(std::uint64_t count) const {
  if (sizes) require_one_each(sizes->size(), "shard sizes", count);
}

Ranges Shard::part(std::uint64_t extent, std::uint64_t count, std::uint64_t index) const {
  Ranges part;
  append(part, sizes ? given_part(*sizes, extent, index) : chunk(extent, count, index));
  return part;
}

bool Zigzag::is_spelled(const base::JsonCursor& value) {
  return has_member(value, kKeyword) && has_member(value, "order");
}

Zigzag Zigzag::parse(const base::JsonCursor& value) {
  const std::uint64_t dim = value.require(kKeyword).as_count();
  const base::JsonCursor order = value.require("order");
  value.allow_keys({kKeyword, "order"});
  if (order.as_string() != "zigzag") {
    throw order.error("unknown order \"", base::printable(order.as_string()),
                      "\", expected \"zigzag\"");
  }
  return {dim};
}

std::string Zigzag::json() const { return concat("{\"shard\":", dim, ",\"order\":\"zigzag\"}"); }

std::string Zigzag::describe() const { return concat("shard ", dim, " (zigzag)"); }

std::string Zigzag::describe_over(const std::string& axis) const {
  return concat("dimension ", dim, " cut over ", axis, " in zigzag order");
}

Ranges Zigzag::part(std::uint64_t extent, std::uint64_t count, std::uint64_t index) const {
  Ranges part;
  append(part, chunk(extent, 2 * count, index));
  append(part, chunk(extent, 2 * count, 2 * count - 1 - index));
  return part;
}

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
