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
  if (const auto sizes = value.find("sizes")) shard.sizes = counts_from(*sizes);
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

}  // namespace ttrace::trace
