// The copies of a tensor that the coordinates of one mesh axis have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "localize/causes/cause.h"

namespace ttrace::localize {

struct CopyOfAxis {
  std::string axis;
  std::uint64_t coordinate = 0;
  measure::TensorRef tensor;

  std::string words() const;  // "dp 1"
};

// Returns the copies that disagree, one per coordinate of the first axis that separates them; empty
// where replicas agree, or for more than 64 coordinates.
std::vector<CopyOfAxis> copies_that_differ(const Case& the_case);

// The tensor as the one coordinate of `axis` has it: what was a replica or a term there is the
// whole.
measure::TensorRef at_coordinate(const measure::TensorRef& tensor, const std::string& axis,
                                 std::uint64_t coordinate);

}  // namespace ttrace::localize
