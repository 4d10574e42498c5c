#include "judge/replay_rule.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace ttrace::judge {

double norm_rounding(std::uint64_t elements, double unit_roundoff) {
  constexpr double kOfOneSum = 4;
  constexpr double kLanes = 8;
  return unit_roundoff * (kOfOneSum + static_cast<double>(elements) / (4 * kLanes));
}

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
  // Keep the division from rounding across the limit.
  const double allowed = facts.difference_norm / facts.worst_ratio;
  tolerance.unit_norm = facts.worst_ratio <= 1
                            ? std::max(allowed, facts.difference_norm)
                            : std::min(allowed, std::nextafter(facts.difference_norm, 0));
  return tolerance;
}

}  // namespace ttrace::judge
