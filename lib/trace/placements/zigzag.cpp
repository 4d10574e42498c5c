#include "trace/placements/zigzag.h"

#include "base/strict_json.h"
#include "trace/placements/shard.h"

namespace ttrace::trace {

using base::concat;

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

tensor::Ranges Zigzag::part(std::uint64_t extent, std::uint64_t count, std::uint64_t index) const {
  tensor::Ranges part;
  append(part, chunk(extent, 2 * count, index));
  append(part, chunk(extent, 2 * count, 2 * count - 1 - index));
  return part;
}

}  // namespace ttrace::trace
