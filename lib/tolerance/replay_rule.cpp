#include "tolerance/replay_rule.h"

#include <algorithm>
#include <cmath>

#include "base/concat.h"

namespace ttrace::tolerance {

Tolerance replay_tolerance(const ReplayFacts& facts, double epsilon) {
  Tolerance tolerance;
  tolerance.rule = Rule::kReplay;
  tolerance.epsilon = epsilon;
  tolerance.multiplier = 1;
  tolerance.formula = base::concat("replay of ", facts.optimizer);
  if (!(facts.worst_ratio > 0)) {
    tolerance.unit_norm = facts.bound_norm;
    return tolerance;
  }
  // The division must not round across the limit.
  const double allowed = facts.difference_norm / facts.worst_ratio;
  tolerance.unit_norm = facts.worst_ratio <= 1
                            ? std::max(allowed, facts.difference_norm)
                            : std::min(allowed, std::nextafter(facts.difference_norm, 0));
  return tolerance;
}

}  // namespace ttrace::tolerance
