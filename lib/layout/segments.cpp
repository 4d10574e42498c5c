#include "layout/segments.h"

#include "base/bytes.h"
#include "base/error.h"
#include "layout/shard.h"

namespace ttrace::layout {
namespace {

void check_sum(const trace::Segments& segments, std::uint64_t extent) {
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
  if (segments.repeat > kMostRanges / segments.segments.size()) {
    throw base::input_error(segments.segments.size(), " segments, ", segments.repeat,
                            " times, are more than ", kMostRanges);
  }
}

}  // namespace

Ranges segments_part(const trace::Segments& segments, std::uint64_t extent, std::uint64_t parts,
                     std::uint64_t index) {
  check_sum(segments, extent);
  Ranges list;  // of one repetition, relative to its start; empty ones kept out by append
  std::uint64_t width = 0;
  for (std::size_t s = 0; s < segments.segments.size(); ++s) {
    const std::uint64_t segment = segments.segments[s];
    Range part = segments.sizes ? given_part((*segments.sizes)[s], segment, index)
                                : chunk(segment, parts, index);
    part.start += width;
    append(list, part);
    width += segment;
  }
  Ranges held;
  for (std::uint64_t r = 0; r < segments.repeat; ++r) {
    for (const Range& part : list) append(held, {part.start + r * width, part.length});
  }
  return held;
}

}  // namespace ttrace::layout
