// The choice of a router that recorded its scores but not what it chose.
#pragma once

#include <cstdint>

#include "compare/measure.h"
#include "routing/scores.h"

namespace ttrace::routing {

// In which order a token's experts stand.
enum class Order {
  kByNumber,  // which they are is all that counts
  kByScore,   // the best first
};

// The numbers of the `chosen` experts with the highest scores, [tokens, chosen], in memory: 8 bytes
// an element. Of equal scores, and of any that are NaN, the lower number is taken for the better,
// as torch.topk on the CPU does. 0 < chosen <= experts. `of` says whose they are. Throws an input
// error if a shard cannot be read.
compare::TensorRef implied_choice(const compare::TensorRef& of, Scores& scores,
                                  std::uint64_t tokens, std::uint64_t experts, std::uint64_t chosen,
                                  Order order);

}  // namespace ttrace::routing
