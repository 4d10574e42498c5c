// How a large tensor is divided: into sections that threads measure apart from each other, and
// these into boxes that are read at once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "measure/tensor_reader.h"
#include "tensor/box.h"

namespace ttrace::measure {

// Large enough that opening the shards once more per section costs nothing. Sums are made by
// section and then merged, whatever the number of threads: changing this number changes rounding in
// the last bits.
inline constexpr std::uint64_t kSectionElements = std::uint64_t{1} << 24;

// A tensor that would have more sections has larger ones.
inline constexpr std::uint64_t kMostSections = 8192;

// Returns boxes that are contiguous in row-major order and together, in that order, make up the
// tensor. At least one; an empty tensor has an empty one.
std::vector<tensor::Box> sections_of(const tensor::Shape& shape);

// Elements that are read at once, of each tensor and by each thread: enough for few and large
// reads, and few enough to stay in a core's own cache until they are added up.
inline constexpr std::uint64_t kReadElements = std::uint64_t{1} << 16;

// Boxes that several owners share are read in larger units, by at most this factor: each owner's
// share is a read of its own, which costs as much as adding up thousands of elements.
inline constexpr std::uint64_t kMostTimesLarger = 4;

// A box that lies in one of the boxes of `RankBoxes` number `owner`.
struct OwnedBox {
  std::size_t owner = 0;
  tensor::Box box;
};

// Visits `within` box by box in the row-major order of `shape`, so that the reference is read once
// and in the order of its elements, however the candidate is sharded. Each box has at most `limit`
// elements, or up to kMostTimesLarger times as many where as many owners share the first `limit`.
// It comes with the parts of it that each owner has, in the order of `owners` (disjoint, together
// the whole tensor).
void for_each_read(
    const tensor::Shape& shape, const tensor::Box& within, const std::vector<RankBoxes>& owners,
    std::uint64_t limit,
    const std::function<void(const tensor::Box& box, const std::vector<OwnedBox>& parts)>& visit);

}  // namespace ttrace::measure
