// Rows that one run has beyond the other's, such as a vocabulary padded to a multiple of the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comparison/tensor_comparison.h"
#include "trace/manifest.h"
#include "trace/source.h"

namespace ttrace::comparison {

// Where the shapes of a pair differ: the extents along one dimension, and which side is longer.
struct Excess {
  std::size_t dim = 0;
  std::uint64_t shorter = 0;
  std::uint64_t longer = 0;
  bool of_candidate = false;

  // Whether both are the same extents, in whatever dimension.
  bool is_like(const Excess& other) const {
    return shorter == other.shorter && longer == other.longer && of_candidate == other.of_candidate;
  }
};

// Returns the excess of a pair if one side is longer along one dimension, by less than the other's
// extent: padding never doubles a tensor. Nothing for all other pairs.
std::optional<Excess> excess_of(const Pair& pair);

struct Padding {
  // Why rows of a tensor are not left out although they are its parameter's padding.
  struct Refusal {
    std::string_view cause;
    std::string told;
  };

  std::vector<std::string> told;  // a sentence for each parameter whose padding was trimmed
  std::map<trace::TensorKey, Refusal> refused;
  // Parameters whose further rows are neither of one value nor without a gradient: no padding.
  std::map<std::string, Excess> in_use;
  // Why the run does not match, or empty: no gradient shows whether rows are padding or lost.
  std::string in_doubt;
};

// Trims the longer side of pairs whose shapes differ in one dimension, where this is the padding of
// a parameter. A parameter that one side has longer along one dimension, by less than the other's
// extent, has padding there if its further rows are all one finite value, no recorded gradient of
// it has anything but zeros in them, and no token number is one of them. Further rows of different
// values without gradient may be rows that this batch never addresses: they are trimmed, and put
// the run in doubt. Further rows of one value whose gradient is not zero are padding that the loss
// sees: this gradient is refused. Without a recorded gradient, or where one cannot be read, nothing
// is trimmed.
//
// With the parameter, its other tensors and the values that are computed from the padding by
// `modules`, the data flow (padded_values.h), are trimmed, where their rows are what padding
// leaves: an updated parameter has moved no more than its weight decay moves it, states are no
// larger than the parameter, gradients are zero, and values are finite, or -infinity throughout: a
// mask. Other rows are refused. Every other pair stays as it is, whatever its extents.
Padding trim_padding(const trace::Source& reference, const trace::Source& candidate,
                     const std::vector<trace::Module>& modules, std::vector<Pair>& pairs);

}  // namespace ttrace::comparison
