#include "judge/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace ttrace::judge {
namespace {

// The quantum of a tensor of the trace, times its scale.
using QuantumOfStored = double (*)(const layout::View&, const trace::TensorEntry&);

double quantum_of(const layout::View& view, QuantumOfStored quantum_of_stored) {
  if (const auto* stored = std::get_if<layout::Stored>(&view.how)) {
    return quantum_of_stored(view, *stored->entry) * std::abs(stored->entry->scale);
  }
  if (const auto* mosaic = std::get_if<layout::Mosaic>(&view.how)) {
    double coarsest = 0;
    for (const auto& tile : mosaic->tiles) {
      coarsest = std::max(coarsest, quantum_of(*tile.source, quantum_of_stored));
    }
    return coarsest;
  }
  if (const auto* sum = std::get_if<layout::Sum>(&view.how)) {
    double all = 0;
    for (const layout::ViewPtr& term : sum->terms) all += quantum_of(*term, quantum_of_stored);
    return std::abs(sum->factor) * all;
  }
  return quantum_of(*std::get<layout::Transposed>(view.how).source, quantum_of_stored);
}

double quantum_as_stored(const layout::View&, const trace::TensorEntry& entry) {
  return tensor::quantum(entry.dtype);
}

double quantum_as_computed(const layout::View& view, const trace::TensorEntry& entry) {
  const double stored = tensor::quantum(entry.dtype);
  // FP8 recipes compute in bf16 around the narrow products, whose operands have scales of their
  // own.
  const bool half = view.computed_in == tensor::DType::kFloat16;
  return half ? std::max(stored, tensor::quantum(tensor::DType::kFloat16)) : stored;
}

}  // namespace

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
  return base::concat(rule_name(tolerance.rule), tolerance.own_rounding > 0 ? "_and_sum" : "",
                      tolerance.kinks > 0 ? "_and_kinks" : "");
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

double shared_quantum(const layout::View& reference, const layout::View& candidate) {
  return std::max(quantum_of(reference, quantum_as_stored),
                  quantum_of(candidate, quantum_as_stored));
}

double computed_quantum(const layout::View& view) { return quantum_of(view, quantum_as_computed); }

double allowed_between_replicas(trace::Kind kind, double allowed_norm, double reference_norm) {
  constexpr double kMostApart = 0.01;
  switch (kind) {
    case trace::Kind::kParam:
    case trace::Kind::kMainGrad:
    case trace::Kind::kGradNorm:
    case trace::Kind::kOptimizerState:
    case trace::Kind::kParamAfterStep:
      return std::min(allowed_norm, kMostApart * reference_norm);
    default:
      return allowed_norm;
  }
}

void allow_own_rounding(double norm, Tolerance& tolerance) {
  if (!(norm > 0)) return;
  tolerance.own_rounding = norm;
  tolerance.floor_norm += norm;
  tolerance.formula += " + rounding of its own sum";
}

void allow_storage(double norm, Tolerance& tolerance) {
  if (!(norm > 0)) return;
  tolerance.floor_norm += norm;
  tolerance.formula += " + one rounding to what is stored";
}

void allow_kinks(double norm, Tolerance& tolerance) {
  if (!(norm > 0)) return;
  tolerance.kinks = norm;
  tolerance.floor_norm += norm;
  tolerance.formula += " + kinks";
}

Tolerance exact_tolerance(bool rounded) {
  Tolerance tolerance;
  tolerance.formula = rounded ? "equal but for one rounding to what is stored" : "exactly equal";
  return tolerance;
}

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
