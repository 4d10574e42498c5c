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

// Norms of parts of the candidate's main gradients in `step`, from their measurements: the shards
// at each coordinate of each mesh axis, the tensors of each mesh, the tensors outside of it, and
// all tensors with each replica counted. Empty if a main gradient was not measured.
std::vector<PartNorm> norms_of_parts(const Related& related, std::uint64_t step);

// The norm of all main gradients, without counting replicas twice; nothing if a main gradient was
// not measured.
std::optional<double> norm_of_all(const Related& related, std::uint64_t step);

}  // namespace ttrace::localize
