#include "tolerance/tolerance.h"

#include <algorithm>
#include <limits>

#include "base/concat.h"

namespace ttrace::tolerance {

std::string_view rule_name(Rule rule) {
  switch (rule) {
    case Rule::kExact:
      return "exact";
    case Rule::kNoise:
      return "noise";
    case Rule::kFallback:
      return "fallback";
    case Rule::kReplay:
      return "replay";
  }
  return "";
}

std::string rule_text(const Tolerance& tolerance) {
  if (tolerance.policy) return base::concat("policy:", *tolerance.policy);
  return base::concat(rule_name(tolerance.rule), tolerance.own_rounding > 0 ? "_and_sum" : "");
}

double passing_multiplier(const Tolerance& tolerance, double difference_norm) {
  const double above_floor = difference_norm - tolerance.floor_norm;
  if (above_floor <= 0) return 0;
  if (!(tolerance.unit_norm > 0)) return std::numeric_limits<double>::infinity();
  return above_floor / tolerance.unit_norm;
}

double shared_epsilon(const layout::View& reference, const layout::View& candidate) {
  double coarsest = 0;
  for (const layout::View* view : {&reference, &candidate}) {
    coarsest = std::max(coarsest, tensor::epsilon(view->dtype));
    if (view->computed_in) coarsest = std::max(coarsest, tensor::epsilon(*view->computed_in));
  }
  return coarsest;
}

void allow_own_rounding(double norm, Tolerance& tolerance) {
  if (!(norm > 0)) return;
  tolerance.own_rounding = norm;
  tolerance.floor_norm += norm;
  tolerance.formula += " + rounding of its own sum";
}

Tolerance exact_tolerance() {
  Tolerance tolerance;
  tolerance.formula = "exactly equal";
  return tolerance;
}

}  // namespace ttrace::tolerance
