// Norms of parts of a step's main gradients: what one rank, or one group of tensors, would take for
// the norm of all.
#pragma once

#include <string>
#include <vector>

#include "localize/causes/cause.h"

namespace ttrace::localize {

struct PartNorm {
  std::string words;  // "the gradients of tp 0"
  double norm = 0;
};

// Of the candidate's main gradients in `step`, from what was measured: of every coordinate of every
// mesh axis, of the tensors of every mesh, of all others, and of all with each copy counted. Empty
// if a main gradient was not measured.
std::vector<PartNorm> norms_of_parts(const Related& related, std::uint64_t step);

// The norm of all, each copy counted once; nothing if a main gradient was not measured.
std::optional<double> norm_of_all(const Related& related, std::uint64_t step);

}  // namespace ttrace::localize
