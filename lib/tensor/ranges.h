// Ranges of the indices of one dimension: which of them a rank has, in its order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ttrace::tensor {

struct Range {
  std::uint64_t start = 0;
  std::uint64_t length = 0;

  bool operator==(const Range&) const = default;
};

// Ranges of global indices, one after the other in local order; none of them empty.
using Ranges = std::vector<Range>;

// More ranges than this in one dimension of one rank are no layout of a training job but a damaged
// manifest, and would take the memory of the machine.
inline constexpr std::size_t kMostRanges = std::size_t{1} << 20;

// Number of indices.
std::uint64_t total(const Ranges& ranges);

// Adds [start, start + length) at the end, joined to the last range where it goes on from it.
// Throws an input error beyond kMostRanges.
void append(Ranges& ranges, Range range);

// The indices of `held` at the local positions `positions`, which must lie within total(held).
Ranges select(const Ranges& held, const Ranges& positions);

}  // namespace ttrace::tensor
