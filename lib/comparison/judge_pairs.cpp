#include "comparison/judge_pairs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/message.h"
#include "comparison/accumulation_error.h"
#include "comparison/random_draws.h"
#include "comparison/shown_precision.h"
#include "comparison/stored_before.h"
#include "judge/fallback_rule.h"
#include "judge/noise_rule.h"
#include "judge/tolerance.h"

namespace ttrace::comparison {

std::map<std::uint64_t, ParametersApart> parameters_apart(
    const std::vector<TensorComparison>& results) {
  struct Sums {
    double d2 = 0;
    double beyond = 0;  // of d2, what noise runs do not show
    double r2 = 0;
  };
  std::set<std::uint64_t> not_replayed;
  std::set<std::uint64_t> updated;
  std::map<std::uint64_t, Sums> sums;
  for (const TensorComparison& result : results) {
    if (!result.comparison || result.exact) continue;
    if (result.key.kind == trace::Kind::kParamAfterStep) {
      updated.insert(result.key.step + 1);
      if (!result.comparison->replay) not_replayed.insert(result.key.step + 1);
    }
    if (result.key.kind != trace::Kind::kParam) continue;
    const measure::TileStats& stats = result.comparison->measurement.total;
    if (!std::isfinite(stats.sum_d2) || !std::isfinite(stats.sum_r2)) continue;
    Sums& step = sums[result.key.step];
    step.d2 += stats.sum_d2;
    step.r2 += stats.sum_r2;
    const auto& noise = result.comparison->noise;
    const double shown = noise && std::isfinite(noise->norm()) ? noise->norm() : 0;
    if (std::sqrt(stats.sum_d2) > judge::kNoiseMultiplier * shown) step.beyond += stats.sum_d2;
  }
  std::map<std::uint64_t, ParametersApart> apart;
  for (const auto& [step, sum] : sums) {
    if (!updated.contains(step) || !(sum.r2 > 0)) continue;
    const double beyond = not_replayed.contains(step) ? sum.beyond : 0;
    apart.emplace(step, ParametersApart{std::sqrt(sum.d2 / sum.r2), std::sqrt(beyond / sum.r2)});
  }
  return apart;
}

bool inherits(trace::Kind kind) {
  return kind != trace::Kind::kParam && kind != trace::Kind::kBuffer &&
         kind != trace::Kind::kOptimizerState && kind != trace::Kind::kIndex;
}

namespace {

// Whether every element is a result of the computation's type: an activation or a gradient.
bool is_of_computed_elements(trace::Kind kind) {
  return kind == trace::Kind::kInput || kind == trace::Kind::kOutput ||
         kind == trace::Kind::kGradInput || kind == trace::Kind::kGradOutput ||
         kind == trace::Kind::kParamGrad || kind == trace::Kind::kMainGrad;
}

double largest_scale(const layout::View& view) {
  double largest = 0;
  for (const trace::TensorEntry* entry : layout::stored_in(view)) {
    largest = std::max(largest, std::abs(entry->scale));
  }
  return largest;
}

// The spacing near 0 of the numbers that the elements were computed from; 0 for kinds whose
// elements do not have the computation's type. A main gradient without a scale of its own may have
// been divided by that of the raw gradients, `raw_scale`, which is 0 where it is not known.
double quantum_of_elements(trace::Kind kind, const layout::View& view, double raw_scale) {
  if (!is_of_computed_elements(kind)) return 0;
  const double quantum = judge::computed_quantum(view);
  return kind == trace::Kind::kMainGrad && largest_scale(view) == 1 ? quantum * raw_scale : quantum;
}

judge::NoiseConstants constants_of(const judge::PolicyRule* rule, const Pair& pair,
                                   double element_quantum) {
  judge::NoiseConstants constants;
  constants.quantum = judge::shared_quantum(*pair.reference, *pair.candidate);
  constants.element_quantum = element_quantum;
  if (rule == nullptr) return constants;
  constants.multiplier = rule->multiplier.value_or(constants.multiplier);
  constants.floor = rule->floor.value_or(constants.floor);
  constants.absolute = rule->absolute.value_or(constants.absolute);
  return constants;
}

// Applies a rule's numbers where only the fallback judges: its multiplier, and additional floors.
void apply(const judge::PolicyRule& rule, double norm, std::uint64_t elements,
           judge::Tolerance& tolerance) {
  tolerance.multiplier = rule.multiplier.value_or(tolerance.multiplier);
  tolerance.floor_norm += rule.floor.value_or(0) * tolerance.epsilon * norm +
                          rule.absolute.value_or(0) * std::sqrt(static_cast<double>(elements));
}

void judge_parts_by(const judge::NoiseConstants& constants, double epsilon, std::size_t most_slices,
                    ComparedNumbers& numbers) {
  numbers.slices = judge::judge_slices(numbers.measurement, *numbers.noise, epsilon, constants,
                                       numbers.own_rounding, numbers.coherence, most_slices);
}

bool is_scalar(const TensorComparison& result) {
  const trace::Kind kind = result.key.kind;
  return result.comparison->measurement.total.elements == 1 &&
         (kind == trace::Kind::kLoss || kind == trace::Kind::kGradNorm ||
          kind == trace::Kind::kScalar);
}

// Whether a rule of the tolerance file says how far a tensor may be off.
bool widens(const judge::PolicyRule* rule) {
  return rule != nullptr && (rule->multiplier || rule->floor || rule->absolute);
}

// The two sides of a pair that has both.
std::array<std::pair<TraceSide, layout::ViewPtr>, 2> sides_of(const Pair& pair) {
  return {{{TraceSide::kReference, pair.reference}, {TraceSide::kCandidate, pair.candidate}}};
}

// Whether a module is a batch, group or instance norm, by its class.
bool normalizes_channels(const std::vector<trace::Module>& modules) {
  const auto is_norm = [](const trace::Module& module) {
    for (const std::string_view known : {"BatchNorm", "GroupNorm", "InstanceNorm"}) {
      if (module.class_name.find(known) != std::string::npos) return true;
    }
    return false;
  };
  return std::any_of(modules.begin(), modules.end(), is_norm);
}

// Whether the candidate rounds more coarsely than the reference, and so than its noise runs.
bool is_coarser_than_noise(const TensorComparison& result, double epsilon) {
  const layout::View& reference = *result.reference;
  return epsilon > judge::shared_epsilon(reference, reference);
}

double norm_of(const std::vector<double>& values) {
  double square = 0;
  for (const double value : values) square += value * value;
  return std::sqrt(square);
}

}  // namespace

Tolerances::Tolerances(const trace::Manifest& reference, const judge::Policy& rules,
                       const std::vector<TensorComparison>& results, std::size_t most_slices)
    : rules_(rules),
      most_slices_(most_slices),
      layers_(judge::layer_count(reference.tensors)),
      fp8_(names_fp8(reference.run.precision)),
      normalizes_channels_(normalizes_channels(reference.modules)),
      inherited_(parameters_apart(results)) {
  judge::TypicalSize typical;
  for (const TensorComparison& result : results) {
    if (result.key.kind == trace::Kind::kParamGrad) add_gradient_scale(result);
    if (result.key.kind == trace::Kind::kOutput) add_output(result);
    if (!result.comparison || result.exact) continue;
    const measure::TileStats& stats = result.comparison->measurement.total;
    const auto& noise = result.comparison->noise;
    if (noise) coherence_.add(result.key, noise->coherence, stats.finite);
    if (noise && is_scalar(result)) add_scalar(result.key, noise->norm(), stats);
    typical.add(result.key.kind, measure::reference_norm(stats), stats.finite);
  }
  for (const trace::Kind kind : trace::kAllKinds) typical_rms_.emplace(kind, typical.rms(kind));
}

judge::Tolerance Tolerances::fallback(const TensorComparison& result, double epsilon,
                                      double quantum) const {
  const measure::TileStats& stats = result.comparison->measurement.total;
  judge::FallbackRun run{fp8_, inherited(result.key).difference};
  return judge::fallback_tolerance(measure::reference_norm(stats), epsilon, stats.finite,
                                   judge::error_depth(result.key, layers_),
                                   typical_rms_.at(result.key.kind), run, quantum);
}

ParametersApart Tolerances::inherited(const trace::TensorKey& key) const {
  // An optimizer's state was made from the gradients of earlier steps.
  const bool state = key.kind == trace::Kind::kOptimizerState;
  if (!inherits(key.kind) && !(state && key.step > 0)) return {};
  const auto apart = inherited_.find(state ? key.step - 1 : key.step);
  return apart == inherited_.end() ? ParametersApart{} : apart->second;
}

void Tolerances::add_scalar(const trace::TensorKey& key, double noise,
                            const measure::TileStats& stats) {
  const double norm = measure::reference_norm(stats);
  if (!(norm > 0) || !std::isfinite(noise)) return;
  double& most = scalar_noise_[{key.kind, judge::name_pattern(key.name)}];
  most = std::max(most, noise / norm);
}

double Tolerances::noise_of_alike(const trace::TensorKey& key) const {
  const auto found = scalar_noise_.find({key.kind, judge::name_pattern(key.name)});
  return found == scalar_noise_.end() ? 0 : found->second;
}

void Tolerances::add_gradient_scale(const TensorComparison& result) {
  for (const auto& [side, view] : sides_of(result)) {
    if (view == nullptr) continue;
    double& scale = gradient_scale_[{side, result.key.step}];
    scale = std::max(scale, largest_scale(*view));
  }
}

void Tolerances::add_output(const TensorComparison& result) {
  if (tensor::element_count(result.shape) == 1) return;  // perhaps the loss itself
  for (const auto& [side, view] : sides_of(result)) {
    if (view == nullptr || !tensor::is_floating(view->dtype)) continue;
    double& coarsest = epsilon_of_outputs_[side];
    coarsest = std::max(coarsest, judge::shared_epsilon(*view, *view));
  }
}

Tolerances::Precision Tolerances::precision_of(const TensorComparison& result) const {
  Precision precision;
  const bool one_number = is_scalar(result);
  for (const auto& [side, view] : sides_of(result)) {
    double epsilon = judge::shared_epsilon(*view, *view);
    const auto outputs = epsilon_of_outputs_.find(side);
    if (one_number && !view->computed_in && outputs != epsilon_of_outputs_.end()) {
      epsilon = std::min(epsilon, outputs->second);
    }
    precision.epsilon = std::max(precision.epsilon, epsilon);
  }
  for (const auto& [side, view] : sides_of(result)) {
    const double stored = tensor::epsilon(view->dtype);
    if (stored > precision.epsilon) {
      precision.storage += stored / 2;
    } else {
      precision.stored = std::max(precision.stored, stored);
    }
  }
  return precision;
}

double Tolerances::element_quantum(const TensorComparison& result) const {
  double widest = 0;
  for (const auto& [side, view] : sides_of(result)) {
    const auto raw = gradient_scale_.find({side, result.key.step});
    const double scale = raw == gradient_scale_.end() ? 0 : raw->second;
    widest = std::max(widest, quantum_of_elements(result.key.kind, *view, scale));
  }
  return widest;
}

void Tolerances::settle_by(const judge::PolicyRule* rule, TensorComparison& result) const {
  ComparedNumbers& numbers = *result.comparison;
  const measure::TileStats& stats = numbers.measurement.total;
  const Precision precision = precision_of(result);
  const double epsilon = precision.epsilon;
  if (const auto& replay = numbers.replay; replay && !result.exact) {
    numbers.tolerance =
        judge::replay_tolerance({measure::difference_norm(stats), replay->bound_norm,
                                 replay->worst ? replay->worst->ratio : 0, replay->of},
                                epsilon);
    return;
  }
  if (result.exact || (rule != nullptr && rule->exact) || (result.stored_before && !widens(rule))) {
    const bool rounded = result.stored_before && roundings_of(result);
    numbers.tolerance = judge::exact_tolerance(rounded);
    numbers.tolerance.epsilon = result.exact ? 0 : epsilon;
    return;
  }
  const double norm = measure::reference_norm(stats);
  const auto by_fallback = [&] {
    judge::Tolerance tolerance =
        fallback(result, epsilon, judge::shared_quantum(*result.reference, *result.candidate));
    if (rule != nullptr) apply(*rule, norm, stats.finite, tolerance);
    judge::allow_own_rounding(norm_of(numbers.own_rounding), tolerance);
    judge::allow_storage(precision.storage * norm, tolerance);
    return tolerance;
  };
  if (!numbers.noise) {
    numbers.tolerance = by_fallback();
    return;
  }
  numbers.coherence =
      coherence_.of(result.key, result.reference->shape.size(), numbers.noise->coherence);
  judge::NoiseConstants constants = constants_of(rule, result, element_quantum(result));
  if (epsilon <= tensor::epsilon(tensor::DType::kFloat32)) {
    constants.slice_scale_floor =
        normalizes_channels_ ? judge::kScaleFloorOfChannels : judge::kScaleFloorOfSlices;
  }
  const judge::SliceNoise noise = judge::noise_of_all(*numbers.noise);
  judge::NoisySlice part{noise.norm, numbers.noise->norms.size(), norm, stats.finite,
                         judge::freedom(noise, stats.finite)};
  // A tensor that no perturbation reaches is computed from parameters, and its noise proves
  // nothing.
  const bool unreached = noise.norm == 0 && is_of_computed_elements(result.key.kind);
  if (unreached && !(rule != nullptr && rule->floor)) {
    constants.floor = std::max(constants.floor, judge::unreached_floor(epsilon, part));
  }
  if (const ParametersApart apart = inherited(result.key); apart.beyond_noise > 0) {
    constants.absolute =
        std::max(constants.absolute,
                 judge::inherited_size(norm, stats.finite, judge::error_depth(result.key, layers_),
                                       typical_rms_.at(result.key.kind), apart.beyond_noise));
  }
  const double of_alike = is_scalar(result) ? noise_of_alike(result.key) * norm : 0;
  if (of_alike > 0 && part.runs >= judge::kFewestRunsForScalars) {
    part.noise = std::max(part.noise, of_alike);
    numbers.tolerance = judge::scalar_tolerance(part, epsilon, precision.stored, constants);
  } else {
    numbers.tolerance = judge::noise_tolerance(part, epsilon, constants);
  }
  judge::allow_own_rounding(norm_of(numbers.own_rounding), numbers.tolerance);
  judge::allow_storage(precision.storage * norm, numbers.tolerance);
  if (is_coarser_than_noise(result, epsilon)) {
    judge::Tolerance wider = by_fallback();
    if (wider.allowed_norm() > numbers.tolerance.allowed_norm()) {
      numbers.tolerance = std::move(wider);
      numbers.slices = {};
      return;
    }
  }
  // Of one number with a rounding on top no part is judged: it is the whole.
  if (precision.storage == 0) judge_parts_by(constants, epsilon, most_slices_, numbers);
}

void Tolerances::settle(TensorComparison& result) const {
  const auto number = rule_for(rules_, result.key);
  settle_by(number ? &rules_[*number] : nullptr, result);
  ComparedNumbers& numbers = *result.comparison;
  if (number && !result.exact && !numbers.replay) numbers.tolerance.policy = number;
}

judge::Judgement Tolerances::judge(const AccumulationError& sums, TensorComparison& result) const {
  ComparedNumbers& numbers = *result.comparison;
  const auto judged = [&] {
    settle(result);
    return judge::judge(result.key.kind, numbers.measurement, numbers.tolerance, result.exact,
                        numbers.slices);
  };
  judge::Judgement judgement = judged();
  const bool by_estimate = numbers.tolerance.rule == judge::Rule::kNoise ||
                           numbers.tolerance.rule == judge::Rule::kFallback;
  if (judgement.outcome != judge::Outcome::kDiverged || !by_estimate) return judgement;
  if (numbers.own_rounding->empty()) numbers.own_rounding = sums.own_rounding(result.key);
  return numbers.own_rounding->empty() ? judgement : judged();
}

void judge_parts(const judge::Policy& rules, std::size_t most_slices, TensorComparison& result) {
  if (!result.comparison->noise) return;
  const auto number = rule_for(rules, result.key);
  double quantum = 0;
  for (const auto& [side, view] : sides_of(result)) {
    quantum = std::max(quantum, quantum_of_elements(result.key.kind, *view, 0));
  }
  judge_parts_by(constants_of(number ? &rules[*number] : nullptr, result, quantum),
                 judge::shared_epsilon(*result.reference, *result.candidate), most_slices,
                 *result.comparison);
}

namespace {

// Two implementations may make one loss of other terms: a mean times a weight, a sum over a number
// of tokens. If their losses agree, factors that differ prove nothing.
void excuse_factors_of_equal_losses(std::vector<TensorComparison>& results) {
  std::set<trace::TensorKey> equal;
  for (const TensorComparison& result : results) {
    if (result.key.kind == trace::Kind::kLoss && result.outcome == judge::Outcome::kMatch) {
      equal.insert(result.key);
    }
  }
  for (TensorComparison& result : results) {
    if (result.outcome != judge::Outcome::kDiverged) continue;
    if (!trace::is_inner_factor_of_loss(result.key)) continue;
    trace::TensorKey loss = result.key;
    loss.kind = trace::Kind::kLoss;
    loss.name = "loss";
    if (!equal.contains(loss)) continue;
    result.outcome = judge::Outcome::kNotRecorded;
    result.comparison.reset();
    result.reason =
        base::render({"the losses agree, so each run multiplies other terms by it", {}});
  }
}

}  // namespace

void judge_results(const Tolerances& tolerances, const AccumulationError& sums,
                   std::vector<TensorComparison>& results) {
  for (TensorComparison& result : results) {
    if (!result.comparison) continue;
    const judge::Judgement judgement = tolerances.judge(sums, result);
    result.outcome = judgement.outcome;
    // A replay may have given the reason: the optimizers have different settings.
    if (result.reason.empty() || judgement.outcome == judge::Outcome::kMatch) {
      result.reason = judgement.reason;
    }
    ComparedNumbers& numbers = *result.comparison;
    numbers.measurement.cells = {};
    if (numbers.noise) numbers.noise->cells = {};
  }
  excuse_factors_of_equal_losses(results);
  leave_draws_unjudged(results);
}

}  // namespace ttrace::comparison
