// The replay rule: tolerances of values that are recomputed from the run's own inputs, namely the
// gradient norm and updated parameters.
#pragma once

#include <cstdint>
#include <string>

#include "judge/tolerance.h"

namespace ttrace::judge {

// Bounds |computed - exact| / exact of the norm of `elements` numbers whose squares are added up
// sequentially in each of eight lanes, as vectorized CPU code does, with unit roundoff u (2^-24 for
// single precision): u·(4 + elements / 32).
//
// Derivation: the k-th addition of a lane of m = elements / 8 squares rounds by at most u·S·k/m,
// where S is the sum of the lane, so the lane is off by at most u·S·m/2, and the root by half of
// that. The 4 covers the squares, the sum over lanes, the root and its storage.
//
// Measured with torch 2.13 on a CPU (16 lanes; vector_norm, _foreach_norm and their shards give the
// same), error in u, largest of normal, heavy-tailed, log-normal and constant values:
//   elements   10^4   10^5    10^6     10^7     3.9·10^7   10^8
//   measured   91     1,058   10,801   72,373   390,794    600,442
//   bound      317    3,129   31,254   312,504  1,206,172  3,125,004
// Normal values lose at most a tenth of that. Pairwise sums (torch's `sum` and `mean`, GPUs) lose 8
// u at any size.
double norm_rounding(std::uint64_t elements, double unit_roundoff);

// The largest relative error of a recorded norm that counts as rounding, for any number of
// elements.
inline constexpr double kMostNormRounding = 0.01;

// The result of replaying the optimizer for one parameter, where every element has its own bound. Q
// are the replayed values.
struct ReplayFacts {
  double difference_norm = 0;  // ‖C - Q‖
  double bound_norm = 0;       // ‖bound‖
  double worst_ratio = 0;      // max |C - Q| / bound
  std::string optimizer;       // "adamw"
};

// Expresses the bounds of all elements as one tolerance: allowed = ‖C - Q‖ / worst_ratio, or
// ‖bound‖ if C equals Q. ‖C - Q‖ is allowed exactly if every element is within its bound, and the
// smallest multiplier that passes is the worst ratio.
Tolerance replay_tolerance(const ReplayFacts& facts, double epsilon);

}  // namespace ttrace::judge
