// The tolerance of an updated parameter that was judged by replaying the optimizer: every element
// has a bound of its own, and these numbers say the same as all of them together.
#pragma once

#include <string>

#include "tolerance/tolerance.h"

namespace ttrace::tolerance {

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

}  // namespace ttrace::tolerance
