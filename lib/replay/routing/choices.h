// What a router chose for every token, and for which tokens two runs chose differently.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "measure/measure.h"
#include "replay/routing/scores.h"

namespace ttrace::replay {

// How a tensor says which experts a token goes to.
enum class Spelling {
  kMap,      // a column for every expert, not zero where chosen
  kIndices,  // the numbers of the chosen experts
};

// The same decision of two runs.
struct Decision {
  measure::TensorRef reference;
  measure::TensorRef candidate;  // of the same shape
  Spelling spelling = Spelling::kMap;
  std::uint64_t tokens = 0;  // rows of the tensor
  std::uint64_t experts = 0;
};

// The tokens whose row says something else, ascending. Reads both tensors slab by slab.
std::vector<std::uint64_t> flipped_tokens(const Decision& decision);

// The chosen experts of one row, ascending; nothing if it names one that does not exist, or one
// twice.
std::optional<std::vector<std::uint64_t>> experts_of(std::span<const double> row, Spelling spelling,
                                                     std::uint64_t experts);

// Tokens that went elsewhere: the experts that only one of the runs chose. Where the same were
// chosen in another order, those out of their place.
struct Moved {
  std::vector<std::uint64_t> left;    // of the reference
  std::vector<std::uint64_t> joined;  // of the candidate
};

// Nothing if either row is impossible or they choose different numbers of experts.
std::optional<Moved> moved(std::span<const double> reference, std::span<const double> candidate,
                           Spelling spelling, std::uint64_t experts);

// In which order a token's experts stand.
enum class Order {
  kByNumber,  // which they are is all that counts
  kByScore,   // the best first
};

// The numbers of the `chosen` experts with the highest scores, [tokens, chosen], in memory: 8 bytes
// an element. Of equal scores, and of any that are NaN, the lower number is taken for the better,
// as torch.topk on the CPU does. 0 < chosen <= experts. `of` says whose they are. Throws an input
// error if a shard cannot be read.
measure::TensorRef implied_choice(const measure::TensorRef& of, Scores& scores,
                                  std::uint64_t tokens, std::uint64_t experts, std::uint64_t chosen,
                                  Order order);

}  // namespace ttrace::replay
