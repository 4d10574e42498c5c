#include "tolerance/noise_rule.h"

#include <algorithm>

#include "base/concat.h"
#include "base/number_text.h"
#include "tolerance/few_elements.h"

namespace ttrace::tolerance {

Tolerance noise_tolerance(const std::vector<double>& noise_norms, double reference_norm,
                          double epsilon, std::uint64_t elements) {
  const double noise = *std::max_element(noise_norms.begin(), noise_norms.end());
  const double widening = few_elements_widening(elements, noise_norms.size());
  Tolerance tolerance;
  tolerance.rule = Rule::kNoise;
  tolerance.epsilon = epsilon;
  tolerance.multiplier = kNoiseMultiplier;
  tolerance.unit_norm = widening * noise;
  const double floor = kFloorMultiplier * std::min(widening, kMostFloorWidening);
  tolerance.floor_norm = floor * epsilon * reference_norm;
  tolerance.formula =
      base::concat(base::short_number(kNoiseMultiplier), "·",
                   widening > 1.05 ? base::concat(base::short_number(widening), "·noise") : "noise",
                   " + ", base::short_number(floor), "·ε");
  return tolerance;
}

}  // namespace ttrace::tolerance
