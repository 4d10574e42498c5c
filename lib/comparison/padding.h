// Rows that one run has beyond the other's, such as a vocabulary padded to a multiple of the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comparison/tensor_comparison.h"
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
  std::vector<std::string> told;  // a sentence for each parameter whose padding was trimmed
  // Gradients that padded rows carry, and the sentence that says so.
  std::map<trace::TensorKey, std::string> with_gradient;
  // Why the run does not match, or empty: no gradient shows whether rows are padding or lost.
  std::string in_doubt;
};

// Trims the longer side of pairs whose shapes differ in one dimension, where the parameter of that
// extent has padding. A parameter that one side has longer along one dimension, by less than the
// other's extent, has padding there if its further rows are all one value and no recorded gradient
// of it has anything but zeros in them. Further rows of different values without gradient may be
// rows that this batch never addresses: they are trimmed, and put the run in doubt. Further rows of
// one value whose gradient is not zero are padding that the loss sees: this gradient stays as it
// is. Everything else of that extent (states, activations) is trimmed with the parameters. Without
// a recorded gradient, or where one cannot be read, nothing is trimmed.
Padding trim_padding(const trace::Source& reference, const trace::Source& candidate,
                     std::vector<Pair>& pairs);

}  // namespace ttrace::comparison
