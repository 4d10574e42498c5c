#include "engine/tolerances.h"

#include <algorithm>
#include <cmath>

#include "engine/inherited.h"
#include "tolerance/fallback_rule.h"
#include "tolerance/noise_rule.h"
#include "tolerance/replay_rule.h"

namespace ttrace::engine {
namespace {

tolerance::NoiseConstants constants_of(const tolerance::PolicyRule* rule, const Pair& pair) {
  tolerance::NoiseConstants constants;
  constants.quantum = tolerance::shared_quantum(*pair.reference, *pair.candidate);
  if (rule == nullptr) return constants;
  constants.multiplier = rule->multiplier.value_or(constants.multiplier);
  constants.floor = rule->floor.value_or(constants.floor);
  constants.absolute = rule->absolute.value_or(constants.absolute);
  return constants;
}

// A rule's numbers where only the fallback judges: its multiplier, and floors on top.
void apply(const tolerance::PolicyRule& rule, double norm, std::uint64_t elements,
           tolerance::Tolerance& tolerance) {
  tolerance.multiplier = rule.multiplier.value_or(tolerance.multiplier);
  tolerance.floor_norm += rule.floor.value_or(0) * tolerance.epsilon * norm +
                          rule.absolute.value_or(0) * std::sqrt(static_cast<double>(elements));
}

void judge_parts_by(const tolerance::NoiseConstants& constants, double epsilon,
                    std::size_t most_slices, report::Comparison& comparison) {
  comparison.slices =
      verdict::judge_slices(comparison.measurement, *comparison.noise, epsilon, constants,
                            comparison.own_rounding, comparison.coherence, most_slices);
}

bool is_scalar(const report::Result& result) {
  const trace::Kind kind = result.key.kind;
  return result.comparison->measurement.total.elements == 1 &&
         (kind == trace::Kind::kLoss || kind == trace::Kind::kGradNorm ||
          kind == trace::Kind::kScalar);
}

double norm_of(const std::vector<double>& values) {
  double square = 0;
  for (const double value : values) square += value * value;
  return std::sqrt(square);
}

}  // namespace

Tolerances::Tolerances(const trace::Manifest& reference, const tolerance::Policy& rules,
                       const std::vector<report::Result>& results, std::size_t most_slices)
    : rules_(rules),
      most_slices_(most_slices),
      layers_(tolerance::layer_count(reference.tensors)),
      fp8_(has_fp8(reference.run.precision)),
      inherited_(parameters_apart(results)) {
  tolerance::TypicalSize typical;
  for (const report::Result& result : results) {
    if (!result.comparison || result.exact) continue;
    const compare::TileStats& stats = result.comparison->measurement.total;
    const auto& noise = result.comparison->noise;
    if (noise) coherence_.add(result.key, noise->coherence, stats.finite);
    if (noise && is_scalar(result)) add_scalar(result.key, noise->norm(), stats);
    typical.add(result.key.kind, compare::reference_norm(stats), stats.finite);
  }
  for (const trace::Kind kind : trace::kAllKinds) typical_rms_.emplace(kind, typical.rms(kind));
}

tolerance::Tolerance Tolerances::fallback(const report::Result& result, double epsilon,
                                          double quantum) const {
  const compare::TileStats& stats = result.comparison->measurement.total;
  tolerance::FallbackRun run{fp8_, 0};
  const auto apart = inherited_.find(result.key.step);
  if (apart != inherited_.end() && inherits(result.key.kind)) run.inherited = apart->second;
  return tolerance::fallback_tolerance(compare::reference_norm(stats), epsilon, stats.finite,
                                       tolerance::error_depth(result.key, layers_),
                                       typical_rms_.at(result.key.kind), run, quantum);
}

void Tolerances::add_scalar(const trace::TensorKey& key, double noise,
                            const compare::TileStats& stats) {
  const double norm = compare::reference_norm(stats);
  if (!(norm > 0) || !std::isfinite(noise)) return;
  double& most = scalar_noise_[{key.kind, tolerance::name_pattern(key.name)}];
  most = std::max(most, noise / norm);
}

double Tolerances::noise_of_alike(const trace::TensorKey& key) const {
  const auto found = scalar_noise_.find({key.kind, tolerance::name_pattern(key.name)});
  return found == scalar_noise_.end() ? 0 : found->second;
}

void Tolerances::settle_by(const tolerance::PolicyRule* rule, const Pair& pair,
                           report::Result& result) const {
  report::Comparison& comparison = *result.comparison;
  const compare::TileStats& stats = comparison.measurement.total;
  const double epsilon = tolerance::shared_epsilon(*pair.reference, *pair.candidate);
  if (const auto& replay = comparison.replay; replay && !result.exact) {
    comparison.tolerance =
        tolerance::replay_tolerance({compare::difference_norm(stats), replay->bound_norm,
                                     replay->worst ? replay->worst->ratio : 0, replay->of},
                                    epsilon);
    return;
  }
  if (result.exact || (rule != nullptr && rule->exact)) {
    comparison.tolerance = tolerance::exact_tolerance();
    comparison.tolerance.epsilon = result.exact ? 0 : epsilon;
    return;
  }
  const double norm = compare::reference_norm(stats);
  if (!comparison.noise) {
    comparison.tolerance =
        fallback(result, epsilon, tolerance::shared_quantum(*pair.reference, *pair.candidate));
    if (rule != nullptr) apply(*rule, norm, stats.finite, comparison.tolerance);
    tolerance::allow_own_rounding(norm_of(comparison.own_rounding), comparison.tolerance);
    return;
  }
  comparison.coherence = coherence_.of(result.key, pair.reference->shape.size());
  const tolerance::NoiseConstants constants = constants_of(rule, pair);
  const tolerance::PartNoise noise = tolerance::noise_of_all(*comparison.noise);
  tolerance::NoisyPart part{noise.norm, comparison.noise->norms.size(), norm, stats.finite,
                            tolerance::freedom(noise, stats.finite)};
  const double of_alike = is_scalar(result) ? noise_of_alike(result.key) * norm : 0;
  if (of_alike > 0 && part.runs >= tolerance::kFewestRunsForScalars) {
    part.noise = std::max(part.noise, of_alike);
    const double stored =
        std::max(tensor::epsilon(pair.reference->dtype), tensor::epsilon(pair.candidate->dtype));
    comparison.tolerance = tolerance::scalar_tolerance(part, epsilon, stored, constants);
  } else {
    comparison.tolerance = tolerance::noise_tolerance(part, epsilon, constants);
  }
  tolerance::allow_own_rounding(norm_of(comparison.own_rounding), comparison.tolerance);
  judge_parts_by(constants, epsilon, most_slices_, comparison);
}

void Tolerances::settle(const Pair& pair, report::Result& result) const {
  const auto number = rule_for(rules_, result.key);
  settle_by(number ? &rules_[*number] : nullptr, pair, result);
  report::Comparison& comparison = *result.comparison;
  if (number && !result.exact && !comparison.replay) comparison.tolerance.policy = number;
}

verdict::Judgement Tolerances::judge(const Pair& pair, const SummedGradients& sums,
                                     report::Result& result) const {
  report::Comparison& comparison = *result.comparison;
  const auto judged = [&] {
    settle(pair, result);
    return verdict::judge(result.key.kind, comparison.measurement, comparison.tolerance,
                          result.exact, comparison.slices);
  };
  verdict::Judgement judgement = judged();
  const bool by_estimate = comparison.tolerance.rule == tolerance::Rule::kNoise ||
                           comparison.tolerance.rule == tolerance::Rule::kFallback;
  if (judgement.outcome != verdict::Outcome::kDiverged || !by_estimate) return judgement;
  if (comparison.own_rounding.empty()) comparison.own_rounding = sums.own_rounding(result.key);
  return comparison.own_rounding.empty() ? judgement : judged();
}

void judge_parts(const Pair& pair, const tolerance::Policy& rules, std::size_t most_slices,
                 report::Result& result) {
  if (!result.comparison->noise) return;
  const auto number = rule_for(rules, result.key);
  judge_parts_by(constants_of(number ? &rules[*number] : nullptr, pair),
                 tolerance::shared_epsilon(*pair.reference, *pair.candidate), most_slices,
                 *result.comparison);
}

void judge_results(const Tolerances& tolerances, const std::vector<Pair>& pairs,
                   const SummedGradients& sums, std::vector<report::Result>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].comparison) continue;
    const verdict::Judgement judgement = tolerances.judge(pairs[i], sums, results[i]);
    results[i].outcome = judgement.outcome;
    // A reason that is known already is that of a replay: the optimizer was told something else.
    if (results[i].reason.empty() || judgement.outcome == verdict::Outcome::kMatch) {
      results[i].reason = judgement.reason;
    }
    report::Comparison& comparison = *results[i].comparison;
    comparison.measurement.cells = {};
    if (comparison.noise) comparison.noise->cells = {};
  }
}

}  // namespace ttrace::engine
