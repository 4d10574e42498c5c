#include "tensor/ranges.h"

#include <algorithm>

#include "base/error.h"

namespace ttrace::tensor {

std::uint64_t total(const Ranges& ranges) {
  std::uint64_t sum = 0;
  for (const Range& range : ranges) sum += range.length;
  return sum;
}

void append(Ranges& ranges, Range range) {
  if (range.length == 0) return;
  if (!ranges.empty() && ranges.back().start + ranges.back().length == range.start) {
    ranges.back().length += range.length;
    return;
  }
  if (ranges.size() == kMostRanges) {
    throw base::input_error("a rank would hold more than ", kMostRanges,
                            " separate ranges of one dimension");
  }
  ranges.push_back(range);
}

Ranges select(const Ranges& held, const Ranges& positions) {
  if (held.size() == 1) {
    Ranges moved = positions;
    for (Range& range : moved) range.start += held[0].start;
    return moved;
  }
  std::vector<std::uint64_t> starts;  // local position of every held range
  starts.reserve(held.size());
  std::uint64_t at = 0;
  for (const Range& range : held) {
    starts.push_back(at);
    at += range.length;
  }
  Ranges chosen;
  for (const Range& wanted : positions) {
    const std::uint64_t stop = wanted.start + wanted.length;
    auto i = static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), wanted.start) -
                                      starts.begin() - 1);
    for (; i < held.size() && starts[i] < stop; ++i) {
      const std::uint64_t from = std::max(starts[i], wanted.start);
      const std::uint64_t to = std::min(starts[i] + held[i].length, stop);
      append(chosen, {held[i].start + (from - starts[i]), to - from});
    }
  }
  return chosen;
}

}  // namespace ttrace::tensor
