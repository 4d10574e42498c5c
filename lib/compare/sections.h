// Parts of a large tensor that are compared apart from each other, on several threads.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/box.h"

namespace ttrace::compare {

// Large enough that opening the shards once more costs nothing. Sums are made by section and then
// put together whatever the number of threads, so the number is part of what the last bits mean.
inline constexpr std::uint64_t kSectionElements = std::uint64_t{1} << 24;

// Of a tensor that is too large for as many, the sections are larger.
inline constexpr std::uint64_t kMostSections = 8192;

// Boxes that are contiguous in row-major order and in that order together make up the tensor, of at
// most kSectionElements unless they would be too many; at least one, if an empty one.
std::vector<tensor::Box> sections_of(const tensor::Shape& shape);

}  // namespace ttrace::compare
