// Finds, for the blocks into which a dimension may be cut, which block of the reference each block
// of the candidate is.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "localize/causes/trial.h"

namespace ttrace::localize {

struct BlockMapping {
  std::size_t dim = 0;
  std::vector<std::size_t> source;  // block i of the candidate is block source[i] of the reference
  double left = 0;                  // ‖C - R with its blocks so arranged‖

  std::uint64_t blocks() const { return source.size(); }
  bool is_permutation() const;
};

// Returns the mapping with the fewest equal blocks that explains the difference, or nothing.
// Candidates are found by sketches of slices (near_blocks.h says which of them are looked at) and
// confirmed by reading both tensors once more.
// `permutation`: whether each block must occur once, or some block must occur twice. A block of
// few elements, or one that several blocks of the reference are like, is no evidence.
std::optional<BlockMapping> find_block_mapping(const Case& the_case, bool permutation);

// "blocks 1 and 2 of 4 are swapped", "4 blocks are in zigzag order over 2 ranks, the reference's in
// natural order", "4 blocks are in the order 0 2 1 3". For rendered_for().
base::Message describe_permutation(const BlockMapping& mapping);

}  // namespace ttrace::localize
