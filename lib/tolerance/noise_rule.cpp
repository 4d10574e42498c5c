#include "tolerance/noise_rule.h"

#include <algorithm>
#include <cmath>

#include "base/concat.h"
#include "base/number_text.h"
#include "tolerance/few_elements.h"

namespace ttrace::tolerance {
namespace {

constexpr double kQuantumTold = 0.01;  // share of the floor from which the formula names it

}  // namespace

Tolerance noise_tolerance(const NoisyPart& part, double epsilon, const NoiseConstants& constants) {
  const double widening = few_elements_widening(part.freedom, part.runs);
  Tolerance tolerance;
  tolerance.rule = Rule::kNoise;
  tolerance.epsilon = epsilon;
  tolerance.multiplier = constants.multiplier;
  tolerance.unit_norm = widening * part.noise;
  const double floor = constants.floor * std::min(widening, kMostFloorWidening);
  const double root = std::sqrt(static_cast<double>(part.elements));
  const double quanta = constants.floor * constants.quantum * root;
  tolerance.floor_norm = floor * epsilon * part.reference_norm + quanta + constants.absolute * root;
  tolerance.formula =
      base::concat(base::short_number(constants.multiplier), "·",
                   widening > 1.05 ? base::concat(base::short_number(widening), "·noise") : "noise",
                   " + ", base::short_number(floor), "·ε");
  if (quanta > kQuantumTold * tolerance.floor_norm) {
    tolerance.formula += base::concat(" + ", base::short_number(constants.floor), "·quantum");
  }
  if (constants.absolute > 0) {
    tolerance.formula += base::concat(" + ", base::short_number(constants.absolute), "·√n");
  }
  return tolerance;
}

Tolerance scalar_tolerance(const NoisyPart& part, double epsilon, double stored_epsilon,
                           const NoiseConstants& constants) {
  const double single = tensor::epsilon(tensor::DType::kFloat32);
  const double widening =
      std::min(few_elements_widening(part.freedom, part.runs), kMostFloorWidening);
  // In units of the widened floor that noise_tolerance makes.
  const double floor_epsilon = std::max(stored_epsilon / widening, single);
  Tolerance tolerance = noise_tolerance(part, std::min(floor_epsilon, epsilon), constants);
  tolerance.epsilon = epsilon;
  tolerance.formula = base::concat(
      base::short_number(constants.multiplier * few_elements_widening(part.freedom, part.runs)),
      "·noise + ", base::short_number(constants.floor), "·ε as stored");
  return tolerance;
}

}  // namespace ttrace::tolerance
