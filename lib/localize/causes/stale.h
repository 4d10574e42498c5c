// Cause "stale": an updated parameter, or part of it, that still has its old value.
#pragma once

#include <cstdint>
#include <vector>

#include "localize/causes/cause.h"

namespace ttrace::localize {

struct StaleFacts {
  std::uint64_t wrong = 0;    // elements that are not what the optimizer makes
  std::uint64_t unmoved = 0;  // of them, those with their old value
  double error = 0;           // relative, of the whole tensor
};

// Named where most of the wrong elements did not move.
std::vector<Cause> find_stale(const StaleFacts& facts);

}  // namespace ttrace::localize
