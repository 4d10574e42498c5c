#include "optimizer/gradient_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "base/text.h"
#include "comparison/measure_pairs.h"
#include "judge/tolerance.h"
#include "measure/cpu/cpu_backend.h"

namespace ttrace::optimizer {
namespace {

using comparison::TensorComparison;
using judge::Outcome;
using trace::Kind;

// When main gradients were recorded; clipped ones imply the norm that they had before.
enum class Taken { kBeforeClipping, kAfterClipping };

// Returns the gradient norm that main gradients of norm `own` imply; nothing if `recorded` was not
// clipped to `clip`. Clipping multiplies by clip / (norm + 1e-6), as measure::clip_coefficient.
std::optional<double> implied_norm(double own, double recorded, Taken taken,
                                   const std::optional<double>& clip) {
  if (taken == Taken::kBeforeClipping) return own;
  if (!clip || recorded + 1e-6 <= *clip) return std::nullopt;
  return own * (recorded + 1e-6) / *clip;
}

double allowed(double rounding, double norm) {
  return std::min(rounding, judge::kMostNormRounding) * norm;
}

// Returns when the main gradients may have been recorded, given that they imply the recorded norm.
std::vector<Taken> possible_times(double recorded, const MainGradientNorm& own,
                                  const std::optional<double>& clip) {
  std::vector<Taken> found;
  for (const Taken taken : {Taken::kBeforeClipping, Taken::kAfterClipping}) {
    const auto implied = implied_norm(own.norm, recorded, taken, clip);
    if (implied && std::abs(*implied - recorded) <= allowed(own.rounding, recorded)) {
      found.push_back(taken);
    }
  }
  return found;
}

struct Norms {
  double implied = 0;
  double recorded = 0;
  double reference = 0;
  double allowed = 0;
};

// Replaces the comparison with the reference by one with the norm that the main gradients imply.
void adopt_norms(const Norms& norms, TensorComparison& result) {
  comparison::ComparedNumbers& comparison = *result.comparison;
  comparison::Replay replay;
  replay.of = "grad_norm";
  replay.bound_norm = norms.allowed;
  replay.reference_difference_norm = std::abs(norms.recorded - norms.reference);
  replay.reference_norm = norms.reference;
  comparison.replay = replay;
  comparison.noise.reset();
  comparison.slices = {};
  comparison.own_rounding = {};
  const tensor::Box box = tensor::whole(result.shape);
  measure::Measurement& measurement = comparison.measurement;
  measurement.total = measure::box_stats(box, {&norms.implied, 1}, {&norms.recorded, 1});
  for (measure::BlockStats& block : measurement.blocks) block.stats = measurement.total;
  judge::Tolerance& judged_by = comparison.tolerance;
  const double epsilon = judged_by.epsilon;
  judged_by = {};
  judged_by.rule = judge::Rule::kReplay;
  judged_by.epsilon = epsilon;
  judged_by.multiplier = 1;
  judged_by.unit_norm = norms.allowed;
  judged_by.formula = "replay from the main gradients";
}

// For clipped gradients: their norm is the limit, whatever it was before, so it cannot be
// recomputed from them. The recorded norm is compared with the reference's, and both may have lost
// digits.
void allow_rounding(double lost, bool gradients_match, const Norms& norms,
                    TensorComparison& result) {
  judge::Tolerance& judged_by = result.comparison->tolerance;
  const double apart = std::abs(norms.recorded - norms.reference);
  if (result.outcome != Outcome::kDiverged || !gradients_match) return;
  if (!(apart <= judged_by.allowed_norm() + lost)) return;
  judge::allow_own_rounding(lost, judged_by);
  result.outcome = Outcome::kMatch;
  result.reason.clear();
}

}  // namespace

GradientNormJudge::GradientNormJudge(const trace::Source& reference, const trace::Source& candidate,
                                     const std::vector<TensorComparison>& results) {
  std::set<Norm> recorded;
  std::set<std::uint64_t> incomplete;
  for (const TensorComparison& result : results) {
    const trace::TensorKey& key = result.key;
    if (key.kind == Kind::kGradNorm && result.comparison) recorded.insert({key.step, key.name});
    if (key.kind == Kind::kMainGrad && key.copy == 0 && result.candidate == nullptr) {
      incomplete.insert(key.step);
    }
  }
  MainGradientNorms references(reference, results, &comparison::Pair::reference);
  MainGradientNorms candidates(candidate, results, &comparison::Pair::candidate);
  for (const Norm& norm : recorded) {
    const auto& [step, name] = norm;
    if (incomplete.contains(step)) continue;
    const auto of_reference = references.parts().part_of(step, name);
    const auto of_candidate = candidates.parts().part_of(step, name);
    if (!of_reference || !of_candidate) continue;
    const Step of{references.of(step, *of_reference), candidates.of(step, *of_candidate),
                  references.parts().limit(step, *of_reference),
                  candidates.parts().limit(step, *of_candidate)};
    if (of.reference.problem.empty() && of.candidate.problem.empty()) known_.emplace(norm, of);
    for (const MainGradientNorm& own : {of.reference, of.candidate}) {
      if (own.unreadable) unreadable_.emplace(norm, own.problem);
    }
  }
}

void GradientNormJudge::judge(bool gradients_match, comparison::TensorComparison& result) const {
  if (result.key.kind != Kind::kGradNorm || !result.comparison || result.exact) return;
  const Norm norm{result.key.step, result.key.name};
  const auto unreadable = unreadable_.find(norm);
  if (unreadable != unreadable_.end()) {
    return comparison::mark_unreadable(result, unreadable->second);
  }
  measure::Measurement& measurement = result.comparison->measurement;
  const measure::TileStats& stats = measurement.total;
  if (stats.elements != 1 || stats.finite != 1) return;
  // Of two signs one is wrong, whatever follows from the gradients.
  if (stats.sum_rc < 0) return;
  const auto found = known_.find(norm);
  if (found == known_.end()) return;

  const Step& step = found->second;
  const MainGradientNorm& own = step.candidate;
  const double reference = std::sqrt(stats.sum_r2);
  const double recorded = std::sqrt(stats.sum_c2);
  const std::vector<Taken> known = possible_times(reference, step.reference, step.reference_clip);
  Norms norms{0, recorded, reference, allowed(own.rounding, recorded)};
  double off = std::numeric_limits<double>::infinity();
  Taken taken = Taken::kBeforeClipping;
  for (const Taken tried : known) {
    const auto implied = implied_norm(own.norm, recorded, tried, step.candidate_clip);
    if (!implied || !(std::abs(*implied - recorded) < off)) continue;
    taken = tried;
    norms.implied = *implied;
    off = std::abs(*implied - recorded);
  }
  if (std::isinf(off)) return;

  const std::string implied_words =
      base::concat("the run's own main gradients make ", base::short_number(norms.implied));
  // Every rank takes the norm of the same sums and loses the same digits, so the ordinary tolerance
  // judges how far apart the ranks may be.
  const bool in_conflict = result.outcome == Outcome::kReplicaConflict ||
                           measurement.replicas->distance_norm > norms.allowed;
  if (measurement.replicas_differ && in_conflict) {
    adopt_norms(norms, result);
    result.outcome = Outcome::kReplicaConflict;
    result.reason = base::concat("ranks recorded different gradient norms; ", implied_words);
    return;
  }
  if (off <= norms.allowed) {
    if (taken == Taken::kAfterClipping) {
      const double lost = norms.allowed + allowed(step.reference.rounding, reference);
      allow_rounding(lost, gradients_match, norms, result);
      return;
    }
    if (result.outcome == Outcome::kDiverged && !gradients_match) return;
    adopt_norms(norms, result);
    result.outcome = Outcome::kMatch;
    result.reason.clear();
    return;
  }
  adopt_norms(norms, result);
  if (off <= own.rounding * recorded) {
    result.outcome = Outcome::kNotJudged;
    result.reason = base::concat(
        implied_words, ", and adding up as many squares in single precision may lose that much");
    return;
  }
  result.outcome = Outcome::kDiverged;
  result.reason = base::concat("does not follow from its main gradients: ", implied_words);
}

void judge_gradient_norms(const trace::Source& reference, const trace::Source& candidate,
                          std::vector<TensorComparison>& results) {
  std::map<std::uint64_t, bool> gradients_match;
  bool any = false;
  for (const TensorComparison& result : results) {
    any = any || (result.key.kind == Kind::kGradNorm && result.comparison);
    if (result.key.kind != Kind::kMainGrad) continue;
    bool& match = gradients_match.try_emplace(result.key.step, true).first->second;
    match = match && !judge::is_bad(result.outcome);
  }
  if (!any) return;
  const GradientNormJudge judge(reference, candidate, results);
  for (TensorComparison& result : results) judge.judge(gradients_match[result.key.step], result);
}

}  // namespace ttrace::optimizer
