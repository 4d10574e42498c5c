// Parts of a large tensor that are compared apart from each other, on several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "measure/tensor_reader.h"
#include "tensor/box.h"

namespace ttrace::measure {

// Large enough that opening the shards once more costs nothing. Sums are made by section and then
// put together whatever the number of threads, so the number is part of what the last bits mean.
inline constexpr std::uint64_t kSectionElements = std::uint64_t{1} << 24;

// Of a tensor that is too large for as many, the sections are larger.
inline constexpr std::uint64_t kMostSections = 8192;

// Boxes that are contiguous in row-major order and in that order together make up the tensor, of at
// most kSectionElements unless they would be too many; at least one, if an empty one.
std::vector<tensor::Box> sections_of(const tensor::Shape& shape);

// The order in which a tensor is compared: band by band of the reference, each with the parts of
// the candidate's shards that lie in it. So the reference is read once, in the order of its
// elements, however the candidate is cut.

// A part of a region that lies in one band.
struct Piece {
  std::size_t region = 0;
  tensor::Box box;
};

// Elements that are read at once, of each tensor and by each thread: enough for few and large
// reads, and few enough to lie in a core's own cache until they are added up.
inline constexpr std::uint64_t kBandElements = std::uint64_t{1} << 16;

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

}  // namespace ttrace::measure
