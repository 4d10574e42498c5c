#include "optimizer/updates_without_replay.h"

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "comparison/measure_pairs.h"
#include "measure/fingerprints.h"
#include "measure/measure.h"
#include "measure/step_difference.h"
#include "optimizer/masters.h"

namespace ttrace::optimizer {
namespace {

using comparison::TensorComparison;
using judge::Outcome;
using trace::Kind;
using trace::TensorKey;

constexpr double kMostOfReferenceStep = 2;  // steps of the reference that matching inputs permit
constexpr double kShortestStep = 0.5;       // of the reference's
// Rounding turns the update of the few elements whose gradients are as small as their rounding, by
// up to two steps: the largest difference is then a large share of the whole, or of an element's
// step. A wrong weight decay or learning rate moves all elements by little.
constexpr double kSpread = 0.25;       // of the whole difference
constexpr double kTurnedStep = 0.5;    // of the reference's step, as root mean squares
constexpr double kFarBeyondNoise = 4;  // times what is allowed, which is four times the noise

// An update says something where its gradient does: rounding neither turns most of a step round nor
// makes it longer where the gradient is off by at most kRoughGradient of its norm, and hardly moves
// it where that is at most kSharpGradient, if the elements of the gradient are of similar size: an
// optimizer that takes signs turns few of them then. A Muon whose last step was taken backwards,
// doubled or times 1.3 matched.
constexpr double kRoughGradient = 0.1;
constexpr double kSharpGradient = 1.0 / 256;
constexpr double kMostTurned = 1.4;   // of the reference's step, with a rough gradient
constexpr double kMostLonger = 0.05;  // of the reference's step, longer or shorter
constexpr double kMostMoved = 0.25;   // of the reference's step, with a sharp gradient

// What no rounding explains: elements whose gradients agree are off by so much of a step together,
// or the whole difference is a multiple of the step, or of the parameter, as a learning rate or a
// decay makes it. Muon in bf16 turns a gradient of low rank by up to 0.36 where it is off by a
// hundredth, and by 0.07 where it is off by 1e-5.
constexpr double kGoodGradient = 0.01;
constexpr double kExactGradient = 1e-5;
constexpr double kMostOfGood = 0.6;
constexpr double kMostOfExact = 0.2;
constexpr double kMostLeftByMultiple = 0.01;     // of the squared difference
constexpr double kSmallShare = 0.1;              // of the update's error, that the gradient's is
constexpr std::uint64_t kFewestOfMultiple = 32;  // elements

using OfStep = std::vector<TensorComparison*>;

// Updates of a step that were made from something bad: the gradient norm, or a tensor of the
// parameter.
class BadInputs {
 public:
  explicit BadInputs(const OfStep& results) {
    for (const TensorComparison* const one : results) {
      const TensorComparison& result = *one;
      if (!judge::is_bad(result.outcome)) continue;
      switch (result.key.kind) {
        case Kind::kGradNorm:
          norm_ = true;
          break;
        case Kind::kParam:
        case Kind::kMainGrad:
          parameters_.insert(result.key.name);
          break;
        case Kind::kOptimizerState:
          parameters_.insert(result.key.name.substr(0, result.key.name.rfind('.')));
          break;
        default:
          break;
      }
    }
  }

  bool any_of(const TensorKey& update) const { return norm_ || parameters_.contains(update.name); }

 private:
  bool norm_ = false;
  std::set<std::string> parameters_;
};

// The parameters and main gradients of a step, by name.
class Records {
 public:
  explicit Records(const OfStep& results) {
    for (const TensorComparison* const result : results) {
      if (result->reference == nullptr || result->candidate == nullptr) continue;
      if (result->key.kind == Kind::kParam) parameters_[result->key.name] = result;
      if (result->key.kind == Kind::kMainGrad && result->outcome == Outcome::kMatch) {
        gradients_[result->key.name] = result;
      }
    }
  }

  // Null where it was not recorded, or is not alike on both sides.
  const TensorComparison* parameter_before(const TensorComparison& update) const {
    return of(parameters_, update);
  }

  // Null where it does not match, too.
  const TensorComparison* gradient_of(const TensorComparison& update) const {
    return of(gradients_, update);
  }

 private:
  using ByName = std::map<std::string, const TensorComparison*>;

  static const TensorComparison* of(const ByName& records, const TensorComparison& update) {
    const auto found = records.find(update.key.name);
    if (found == records.end()) return nullptr;
    const TensorComparison& record = *found->second;
    const bool alike = record.reference->shape == update.reference->shape &&
                       record.candidate->shape == update.reference->shape;
    return alike ? &record : nullptr;
  }

  ByName parameters_;
  ByName gradients_;
};

// How the steps of both runs differ, by the parts of the candidate that make them; nothing where
// the parameter before the step was not recorded, or something is not finite.
std::optional<measure::StepDifference> difference_of(const trace::Source& reference,
                                                     const trace::Source& candidate,
                                                     const TensorComparison& update,
                                                     const Records& records) {
  const TensorComparison* const before = records.parameter_before(update);
  if (before == nullptr) return std::nullopt;
  measure::UpdatedParameter of_reference{
      {&reference, before->reference}, {&reference, update.reference}, std::nullopt};
  measure::UpdatedParameter of_candidate{
      {&candidate, before->candidate}, {&candidate, update.candidate}, std::nullopt};
  std::vector<measure::RankBoxes> parts;
  if (const TensorComparison* const gradient = records.gradient_of(update)) {
    of_reference.gradient = {&reference, gradient->reference};
    of_candidate.gradient = {&candidate, gradient->candidate};
    parts = comparison::parts_of(*gradient);
  }
  const measure::StepDifference found =
      measure::difference_of_steps(of_reference, of_candidate, parts);
  if (!std::isfinite(found.total.rr) || !std::isfinite(found.total.cc)) return std::nullopt;
  return found;
}

bool has_no_replay(const TensorComparison& result) {
  return result.key.kind == Kind::kParamAfterStep && result.outcome == Outcome::kDiverged &&
         result.comparison && !result.comparison->replay && !result.exact &&
         result.comparison->measurement.total.nonfinite_different == 0;
}

bool is_spread(const measure::TileStats& total, double off, double meant) {
  if (!total.largest || total.finite == 0) return false;
  const double step = meant / std::sqrt(static_cast<double>(total.finite));
  return total.largest->difference < kSpread * off &&
         total.largest->difference < kTurnedStep * step;
}

// Whether the noise runs say that rounding does not move it so far: it is off by 16 times what it
// is in them, where healthy runs reach 2.3 times. Says nothing of elements whose sign rounding
// turns, of which three runs may have met none.
bool is_far_beyond_noise(const TensorComparison& result) {
  const comparison::ComparedNumbers& numbers = *result.comparison;
  const double allowed = numbers.tolerance.allowed_norm();
  return numbers.noise && numbers.tolerance.rule == judge::Rule::kNoise &&
         measure::difference_norm(numbers.measurement.total) > kFarBeyondNoise * allowed;
}

struct Steps {
  double off = 0;      // ‖difference of the updated parameters‖
  double largest = 0;  // of a single element
  double meant = 0;    // how far the reference's step moves it
  double taken = 0;    // how far the candidate's does
};

// By how much the main gradient of each updated parameter is off, relative to its norm, where it
// matches.
class GradientErrors {
 public:
  explicit GradientErrors(const OfStep& results) {
    for (const TensorComparison* const one : results) {
      const TensorComparison& result = *one;
      if (result.key.kind != Kind::kMainGrad || result.outcome != Outcome::kMatch) continue;
      if (!result.comparison) continue;
      const measure::TileStats& total = result.comparison->measurement.total;
      const double norm = measure::reference_norm(total);
      if (norm > 0) {
        errors_[result.key.name] = measure::difference_norm(total) / norm;
      }
    }
  }

  // Whether the gradient is off by a small share of what the update is, each relative to its norm.
  bool are_better_than(const TensorComparison& update, const measure::StepDifference& steps) const {
    const auto found = errors_.find(update.key.name);
    return found != errors_.end() && steps.total.rr > 0 &&
           found->second <= kSmallShare * std::sqrt(steps.total.dd / steps.total.rr);
  }

  // Whether no rounding of the gradient explains by how much the update is off.
  bool leave_unexplained(const TensorComparison& update,
                         const measure::StepDifference& steps) const {
    const auto found = errors_.find(update.key.name);
    const double dd = steps.total.dd;
    const double rr = steps.total.rr;
    if (found == errors_.end() || !(rr > 0) || !(dd > 0)) return false;
    const double error = found->second;
    const double most = error <= kExactGradient ? kMostOfExact : kMostOfGood;
    if (error <= kGoodGradient && steps.unexplained > most * most * rr) return true;
    // Rounding makes no multiple of a step, nor of the parameter.
    if (!are_better_than(update, steps)) return false;
    const double left = std::min(steps.left_by_parts().value_or(dd), steps.left_by_parameter());
    return steps.total.elements >= kFewestOfMultiple && left <= kMostLeftByMultiple * dd;
  }

  // Whether rounding of the gradient hardly explains the update. Of a fused bias of queries, keys
  // and values a third is rounding alone, so how far a vector turned says nothing.
  bool contradict(const TensorComparison& update, const Steps& steps) const {
    const auto found = errors_.find(update.key.name);
    if (!(steps.meant > 0)) return false;
    if (found == errors_.end() || found->second > kRoughGradient) return false;
    return steps.off > kMostTurned * steps.meant ||
           std::abs(steps.taken - steps.meant) > kMostLonger * steps.meant ||
           (update.shape.size() >= 2 && found->second <= kSharpGradient &&
            steps.off > kMostMoved * steps.meant && steps.largest < kSpread * steps.off);
  }

 private:
  std::map<std::string, double> errors_;
};

// Returns what the step before left of what stands under `key` now, or nothing.
std::optional<TensorKey> update_before(const TensorKey& key) {
  if (key.step == 0) return std::nullopt;
  TensorKey update = key;
  update.step = key.step - 1;
  update.kind = key.kind == Kind::kBuffer ? Kind::kBufferAfterStep : Kind::kParamAfterStep;
  if (key.kind == Kind::kParam || key.kind == Kind::kBuffer) return update;
  if (key.kind != Kind::kOptimizerState || !key.name.ends_with(kMainCopy)) return std::nullopt;
  update.name.resize(key.name.size() - kMainCopy.size());
  return update;
}

// Throws an input error if they cannot be read.
bool still_holds(const trace::Source& candidate, const comparison::Pair& now,
                 const comparison::Pair& update) {
  if (now.candidate->shape != update.candidate->shape) return false;
  return measure::same_values({&candidate, now.candidate}, {&candidate, update.candidate});
}

void judge_step(const trace::Source& reference, const trace::Source& candidate,
                const measure::ExecutionContext& execution, const OfStep& results) {
  const BadInputs bad(results);
  const GradientErrors gradients(results);
  const Records records(results);
  OfStep updates;
  for (TensorComparison* const result : results) {
    if (has_no_replay(*result) && !bad.any_of(result->key)) updates.push_back(result);
  }
  execution.parallel_for(updates.size(), [&](std::size_t u) {
    TensorComparison& result = *updates[u];
    std::optional<measure::StepDifference> steps;
    try {
      steps = difference_of(reference, candidate, result, records);
    } catch (const base::InputError& error) {
      return comparison::mark_unreadable(result, error.what());
    }
    if (!steps) return;
    const double meant = std::sqrt(steps->total.rr);
    const double taken = std::sqrt(steps->total.cc);
    // The step's own: where earlier steps were not judged, the parameters differ before it.
    const double off = std::sqrt(steps->total.dd);
    const double allowed = result.comparison->tolerance.allowed_norm();
    const std::string words =
        base::concat("; its optimizer cannot be replayed, what it was updated from is good, it is ",
                     base::short_number(off), " off, and the reference's step moves it by ",
                     base::short_number(meant));
    if (off > allowed + kMostOfReferenceStep * meant || taken < kShortestStep * meant) {
      result.reason =
          base::concat(taken == 0 ? std::string("did not move")
                                  : base::concat("moved by ", base::short_number(taken)),
                       words);
      return;
    }
    if (gradients.leave_unexplained(result, *steps)) {
      result.reason = base::concat("is off by ", base::short_number(off / meant),
                                   " of a step, which no rounding of its gradient explains");
      return;
    }
    result.outcome = Outcome::kNotJudged;
    const measure::TileStats& total = result.comparison->measurement.total;
    const double largest = total.largest ? total.largest->difference : 0;
    if (is_spread(total, off, meant) && is_far_beyond_noise(result) &&
        gradients.are_better_than(result, *steps)) {
      result.outcome = Outcome::kDiverged;
      result.reason = base::concat("is off by ", base::short_number(off / meant),
                                   " of a step in many elements, far beyond what rounding makes in "
                                   "the noise runs");
    } else if (is_spread(total, off, meant)) {
      result.spread = true;
      result.reason = base::concat("is off by ", base::short_number(off / meant),
                                   " of a step in many elements, as by a wrong decay or learning "
                                   "rate; its optimizer cannot be replayed");
    } else if (gradients.contradict(result, {off, largest, meant, taken})) {
      result.spread = true;
      result.reason = base::concat("is off by ", base::short_number(off / meant),
                                   " of a step, but its gradient matches; its optimizer cannot be "
                                   "replayed");
    } else {
      result.reason = base::concat("may be rounding alone", words);
    }
  });
}

// Judges parameters (or the optimizer's main copies of them) that diverge at the beginning of a
// step by the update of the step before. Where the update matches and the candidate's values are
// still the same, they take its comparison and outcome: noise cannot judge a parameter after an
// optimizer's step, and the update has been judged already. Reads only the values of parameters
// that diverge.
void reuse_verdicts(const trace::Source& candidate, const measure::ExecutionContext& execution,
                    const OfStep& earlier, const OfStep& results) {
  // Good ones, and those that were not judged.
  std::map<TensorKey, const TensorComparison*> updates;
  for (const TensorComparison* const result : earlier) {
    const bool usable =
        result->outcome == Outcome::kMatch || result->outcome == Outcome::kNotJudged;
    const bool left =
        result->key.kind == Kind::kParamAfterStep || result->key.kind == Kind::kBufferAfterStep;
    if (left && usable && result->comparison) {
      updates.emplace(result->key, result);
    }
  }
  execution.parallel_for(results.size(), [&](std::size_t i) {
    TensorComparison& result = *results[i];
    if (result.outcome != Outcome::kDiverged || result.exact) return;
    const auto before = update_before(result.key);
    const auto found = before ? updates.find(*before) : updates.end();
    if (found == updates.end()) return;
    const TensorComparison& update = *found->second;
    try {
      if (!still_holds(candidate, result, update)) return;
    } catch (const base::InputError& error) {
      return comparison::mark_unreadable(result, error.what());
    }
    result.comparison = update.comparison;
    result.outcome = update.outcome;
    result.reason = base::concat(
        "the candidate's ", to_string(*before),
        update.outcome == Outcome::kMatch ? ", which matches" : ", which could not be judged");
  });
}

}  // namespace

void judge_updates_without_replay(const trace::Source& reference, const trace::Source& candidate,
                                  const measure::ExecutionContext& execution,
                                  std::vector<TensorComparison>& results) {
  std::map<std::uint64_t, OfStep> steps;
  for (TensorComparison& result : results) steps[result.key.step].push_back(&result);
  const OfStep* before = nullptr;
  for (const auto& [step, of_step] : steps) {
    if (before != nullptr) reuse_verdicts(candidate, execution, *before, of_step);
    judge_step(reference, candidate, execution, of_step);
    before = &of_step;
  }
}

}  // namespace ttrace::optimizer
