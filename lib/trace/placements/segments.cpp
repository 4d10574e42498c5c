#include "trace/placements/segments.h"

#include "base/bytes.h"
#include "base/strict_json.h"
#include "trace/placements/shard.h"

namespace ttrace::trace {

using base::concat;
using tensor::Range;
using tensor::Ranges;

namespace {

void check_sum(const Segments& segments, std::uint64_t extent) {
  std::optional<std::uint64_t> sum = 0;
  for (const std::uint64_t segment : segments.segments) {
    if (sum) sum = base::checked_add(*sum, segment);
  }
  if (sum) sum = base::checked_mul(*sum, segments.repeat);
  if (!sum) throw base::input_error("the segments overflow 64 bits");
  if (*sum != extent) {
    throw base::input_error("the segments add up to ", *sum, ", but there are ", extent,
                            " elements to cut");
  }
  if (segments.segments.empty()) throw base::input_error("there are no segments");
  if (segments.repeat > tensor::kMostRanges / segments.segments.size()) {
    throw base::input_error(segments.segments.size(), " segments, ", segments.repeat,
                            " times, are more than ", tensor::kMostRanges);
  }
}

}  // namespace

bool Segments::is_spelled(const base::JsonCursor& value) {
  return has_member(value, kKeyword) && has_member(value, "segments");
}

Segments Segments::parse(const base::JsonCursor& value) {
  const std::uint64_t dim = value.require(kKeyword).as_count();
  value.allow_keys({kKeyword, "segments", "repeat", "sizes"});
  const base::JsonCursor list = value.require("segments");
  Segments segments{dim, list.as_counts(), 1, std::nullopt};
  if (segments.segments.empty()) throw list.error("expected at least one segment");
  if (const auto repeat = value.find("repeat")) {
    segments.repeat = repeat->as_count();
    if (segments.repeat == 0) throw repeat->error("the segments are repeated 0 times");
  }
  if (const auto sizes = value.find("sizes")) {
    segments.sizes.emplace();
    for (const base::JsonCursor& item : sizes->items()) segments.sizes->push_back(item.as_counts());
    if (segments.sizes->size() != segments.segments.size()) {
      throw sizes->error("lists of parts for ", segments.sizes->size(), " segments, but there are ",
                         segments.segments.size());
    }
  }
  return segments;
}

std::string Segments::json() const {
  std::string text = concat("{\"shard\":", dim, ",\"segments\":", json_list(segments));
  if (repeat != 1) text += concat(",\"repeat\":", repeat);
  if (sizes) {
    text += ",\"sizes\":[";
    for (std::size_t s = 0; s < sizes->size(); ++s) {
      text += concat(s > 0 ? "," : "", json_list((*sizes)[s]));
    }
    text += "]";
  }
  return text + "}";
}

std::string Segments::describe() const {
  return concat("shard ", dim, " (", segments.size() * repeat, " segments)");
}

std::string Segments::describe_numbers() const {
  std::string text = concat(" ", describe_list(segments), " repeated ", repeat, " times");
  if (sizes) {
    text += concat(" sizes ",
                   describe_list(*sizes, [](const auto& parts) { return describe_list(parts); }));
  }
  return text;
}

std::string Segments::describe_over(const std::string& axis) const {
  return concat("dimension ", dim, " cut over ", axis, " in ", segments.size() * repeat,
                " segments");
}

void Segments::require_lists_for(std::uint64_t count) const {
  if (!sizes) return;
  for (const auto& parts : *sizes) require_one_each(parts.size(), "parts of a segment", count);
}

Ranges Segments::part(std::uint64_t extent, std::uint64_t count, std::uint64_t index) const {
  check_sum(*this, extent);
  Ranges list;  // of one repetition, relative to its start; empty ones kept out by append
  std::uint64_t width = 0;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    Range part =
        sizes ? given_part((*sizes)[s], segments[s], index) : chunk(segments[s], count, index);
    part.start += width;
    append(list, part);
    width += segments[s];
  }
  Ranges held;
  for (std::uint64_t r = 0; r < repeat; ++r) {
    for (const Range& part : list) append(held, {part.start + r * width, part.length});
  }
  return held;
}

}  // namespace ttrace::trace
