// How far a sum of many terms of one sign may be off by the roundings of its additions.
#pragma once

#include <cstdint>
#include <string>

#include "judge/tolerance.h"

namespace ttrace::judge {

// Bound on |computed - exact| / exact of the norm of `elements` numbers whose squares are added up
// one after the other in each of eight lanes, as vectorized CPU code does, with unit roundoff `u`
// (2^-24 for single precision): u·(4 + elements / 32).
//
// Derivation: the k-th addition of a lane of m = elements / 8 squares rounds by at most u·S·k/m,
// where S is the lane's sum, so the lane is off by at most u·S·m/2, and the root by half of that;
// 4 for the squares, the sum over lanes, the root and its storage.
//
// Measured with torch 2.13 on a CPU (16 lanes; vector_norm, _foreach_norm and their shards give the
// same), error in u, largest of normal, heavy-tailed, log-normal and constant values:
//   elements   10^4   10^5    10^6     10^7     3.9·10^7   10^8
//   measured   91     1,058   10,801   72,373   390,794    600,442
//   bound      317    3,129   31,254   312,504  1,206,172  3,125,004
// Normal values alone lose a tenth of that or less. Sums of pairs (torch's `sum` and `mean`, GPUs)
// lose 8 u at any size.
double norm_rounding(std::uint64_t elements, double unit_roundoff);

// A recorded norm that is further than this from what its terms make is never taken for healthy,
// however many they are.
inline constexpr double kMostNormRounding = 0.01;

// The tolerance of an updated parameter that was judged by replaying the optimizer: every element
// has a bound of its own, and these numbers say the same as all of them together.

// What a replay found: Q the replayed values.
struct ReplayFacts {
  double difference_norm = 0;  // ‖C - Q‖
  double bound_norm = 0;       // ‖bound‖
  double worst_ratio = 0;      // max |C - Q| / bound
  std::string optimizer;       // "adamw"
};

// allowed = ‖C - Q‖ / worst_ratio, so that the smallest multiplier that passes is the worst ratio:
// ‖C - Q‖ is allowed exactly where every element is within its bound. ‖bound‖ where C is Q.
Tolerance replay_tolerance(const ReplayFacts& facts, double epsilon);

}  // namespace ttrace::judge
