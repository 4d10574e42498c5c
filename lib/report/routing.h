// Routers that sent tokens to other experts than the reference's did.
#pragma once

#include <cstdint>
#include <string>

#include "trace/key.h"

namespace ttrace::report {

struct RouterFlips {
  trace::TensorKey key;  // of the tensor that says which experts were chosen
  std::uint64_t tokens = 0;
  std::uint64_t experts = 0;
  std::uint64_t flipped = 0;      // tokens that went elsewhere
  std::uint64_t unexplained = 0;  // of them, those that rounding does not explain
  std::uint64_t first_unexplained = 0;
  std::string why;         // of the first unexplained one
  std::string scores;      // where the scores are from, in words
  double noise = 0;        // of the scores: root mean square of their difference
  double largest_gap = 0;  // between the scores of experts swapped, of those explained
  bool follows = false;    // flips before it have reached its input
};

}  // namespace ttrace::report
