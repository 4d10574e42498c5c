// Which blocks of the reference may be nearest to a block of the candidate: a screen by one product
// of all blocks with all blocks, in any order of sums. It leaves out only what its own error cannot
// make the nearest or the second nearest, so that what is decided on the others is the same as
// without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "localize/causes/profile.h"
#include "measure/backend.h"

namespace ttrace::localize {

// The sketches of all slices along one dimension.
class NearBlocks {
 public:
  // Products are left to the backend where that pays; it may be null.
  NearBlocks(std::span<const SliceSums> slices, const measure::Backend* backend);

  // For `count` blocks of equal length, by block of the candidate: the blocks of the reference to
  // look at, ascending, among them its own number.
  std::vector<std::vector<std::size_t>> find(std::uint64_t count) const;

 private:
  // Σ a·b of every block of the candidate with every block of the reference, by rows.
  std::vector<double> products(std::uint64_t count) const;

  const measure::Backend* backend_;
  std::vector<double> reference_;  // kSketchSize numbers a slice
  std::vector<double> candidate_;
  std::vector<double> reference_squares_;  // Σ x² of every slice
  std::vector<double> candidate_squares_;
};

}  // namespace ttrace::localize
