// Norms of parts of a step's main gradients: the gradient norms that a run computes if it forgets
// the other ranks or the other groups of tensors.
#pragma once

#include <string>
#include <vector>

#include "localize/causes/cause.h"

namespace ttrace::localize {

struct PartNorm {
  std::string words;  // "the gradients of tp 0"
  double norm = 0;
};

// The main gradients of the candidate that one gradient norm is of; see trace::NormedParts.
struct NormedGradients {
  std::uint64_t step = 0;
  std::string part;  // empty: all
};

// Norms of parts of these gradients, from their measurements: the shards at each coordinate of each
// mesh axis, the tensors of each mesh, the tensors outside of it, and all tensors with each replica
// counted. Empty if a main gradient was not measured.
std::vector<PartNorm> norms_of_parts(const Related& related, const NormedGradients& of);

// The norm of all of them, without counting replicas twice; nothing if a main gradient was not
// measured.
std::optional<double> norm_of_all(const Related& related, const NormedGradients& of);

}  // namespace ttrace::localize
