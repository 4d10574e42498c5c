#include "tolerance/noise_rule.h"

#include <algorithm>
#include <cmath>

#include "base/concat.h"
#include "base/number_text.h"
#include "tolerance/few_elements.h"

namespace ttrace::tolerance {

Tolerance noise_tolerance(const NoisyPart& part, double epsilon, const NoiseConstants& constants) {
  const double widening = few_elements_widening(part.freedom, part.runs);
  Tolerance tolerance;
  tolerance.rule = Rule::kNoise;
  tolerance.epsilon = epsilon;
  tolerance.multiplier = constants.multiplier;
  tolerance.unit_norm = widening * part.noise;
  const double floor = constants.floor * std::min(widening, kMostFloorWidening);
  tolerance.floor_norm = floor * epsilon * part.reference_norm +
                         constants.absolute * std::sqrt(static_cast<double>(part.elements));
  tolerance.formula =
      base::concat(base::short_number(constants.multiplier), "·",
                   widening > 1.05 ? base::concat(base::short_number(widening), "·noise") : "noise",
                   " + ", base::short_number(floor), "·ε");
  if (constants.absolute > 0) {
    tolerance.formula += base::concat(" + ", base::short_number(constants.absolute), "·√n");
  }
  return tolerance;
}

}  // namespace ttrace::tolerance
