// The order in which a tensor is compared: band by band of the reference, each with the parts of
// the candidate's shards that lie in it. So the reference is read once, in the order of its
// elements, however the candidate is cut.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compare/tensor_reader.h"

namespace ttrace::compare {

// A part of a region that lies in one band.
struct Piece {
  std::size_t region = 0;
  tensor::Box box;
};

// Bands of which several regions share one are larger: each piece is a read of its own, and costs
// what thousands of elements cost to add up.
inline constexpr std::uint64_t kMostTimesLarger = 4;

// Visits boxes of at most `limit` elements, or where the first so many are shared by n regions'
// boxes min(n, kMostTimesLarger) times as many, that are contiguous in the row-major order of
// `shape` and together make up `within`, as contiguous, one after the other; each with its pieces
// in the order of `regions` (disjoint, together the whole tensor).
void for_each_band(
    const tensor::Shape& shape, const tensor::Box& within, const std::vector<Region>& regions,
    std::uint64_t limit,
    const std::function<void(const tensor::Box& band, const std::vector<Piece>& pieces)>& visit);

}  // namespace ttrace::compare
