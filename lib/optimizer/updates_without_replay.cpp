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
#include "optimizer/replay_updates.h"
#include "optimizer/settings.h"

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
constexpr double kSpread = 0.25;     // of the whole difference
constexpr double kTurnedStep = 0.5;  // of the reference's step, as root mean squares

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

// Updates that were made from something bad: the gradient norm, or a tensor of the parameter.
class BadInputs {
 public:
  explicit BadInputs(const std::vector<TensorComparison>& results) {
    for (const TensorComparison& result : results) {
      if (!judge::is_bad(result.outcome)) continue;
      switch (result.key.kind) {
        case Kind::kGradNorm:
          norms_.insert(result.key.step);
          break;
        case Kind::kParam:
        case Kind::kMainGrad:
          parameters_.emplace(result.key.step, result.key.name);
          break;
        case Kind::kOptimizerState:
          parameters_.emplace(result.key.step,
                              result.key.name.substr(0, result.key.name.rfind('.')));
          break;
        default:
          break;
      }
    }
  }

  bool any_of(const TensorKey& update) const {
    return norms_.contains(update.step) || parameters_.contains({update.step, update.name});
  }

 private:
  std::set<std::uint64_t> norms_;
  std::set<std::pair<std::uint64_t, std::string>> parameters_;
};

// ‖after - before‖, or nothing where the parameter before the step was not recorded.
std::optional<double> step_length(const measure::Backend& backend, const trace::Source& source,
                                  const OptimizerIndex& index, const layout::ViewPtr& after) {
  bool complete = true;
  const layout::ViewPtr before = layout::with_entries(after, [&](const trace::TensorEntry& entry) {
    TensorKey key = entry.key;
    key.kind = Kind::kParam;
    const trace::TensorEntry* parameter = index.tensor(key);
    complete = complete && parameter != nullptr && parameter->shape == entry.shape;
    return complete ? *parameter : entry;
  });
  if (!complete) return std::nullopt;
  const measure::Measurement moved =
      measure::measure(backend, {&source, before}, {&source, after}, nullptr);
  if (moved.total.nonfinite_different > 0) return std::nullopt;
  return measure::difference_norm(moved.total);
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
  explicit GradientErrors(const std::vector<TensorComparison>& results) {
    for (const TensorComparison& result : results) {
      if (result.key.kind != Kind::kMainGrad || result.outcome != Outcome::kMatch) continue;
      if (!result.comparison) continue;
      const measure::TileStats& total = result.comparison->measurement.total;
      const double norm = measure::reference_norm(total);
      if (norm > 0) {
        errors_[{result.key.step, result.key.name}] = measure::difference_norm(total) / norm;
      }
    }
  }

  // Whether rounding of the gradient hardly explains the update. Of a fused bias of queries, keys
  // and values a third is rounding alone, so how far a vector turned says nothing.
  bool contradict(const TensorComparison& update, const Steps& steps) const {
    const auto found = errors_.find({update.key.step, update.key.name});
    if (!(steps.meant > 0)) return false;
    if (found == errors_.end() || found->second > kRoughGradient) return false;
    return steps.off > kMostTurned * steps.meant ||
           std::abs(steps.taken - steps.meant) > kMostLonger * steps.meant ||
           (update.shape.size() >= 2 && found->second <= kSharpGradient &&
            steps.off > kMostMoved * steps.meant && steps.largest < kSpread * steps.off);
  }

 private:
  std::map<std::pair<std::uint64_t, std::string>, double> errors_;
};

constexpr std::string_view kMainCopy = ".main_param";

// Returns the update whose result `key` should be, or nothing.
std::optional<TensorKey> update_before(const TensorKey& key) {
  if (key.step == 0) return std::nullopt;
  TensorKey update = key;
  update.step = key.step - 1;
  update.kind = Kind::kParamAfterStep;
  if (key.kind == Kind::kParam) return update;
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

}  // namespace

void judge_updates_without_replay(const trace::Source& reference, const trace::Source& candidate,
                                  const measure::ExecutionContext& execution,
                                  std::vector<TensorComparison>& results) {
  const BadInputs bad(results);
  const GradientErrors gradients(results);
  std::vector<std::size_t> updates;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (has_no_replay(results[i]) && !bad.any_of(results[i].key)) updates.push_back(i);
  }
  if (updates.empty()) return;
  const OptimizerIndex references(reference.manifest());
  const OptimizerIndex candidates(candidate.manifest());
  execution.parallel_for(updates.size(), [&](std::size_t u) {
    TensorComparison& result = results[updates[u]];
    std::optional<double> meant;
    std::optional<double> taken;
    try {
      meant = step_length(*execution.backend, reference, references, result.reference);
      taken = step_length(*execution.backend, candidate, candidates, result.candidate);
    } catch (const base::InputError& error) {
      return comparison::mark_unreadable(result, error.what());
    }
    if (!meant || !taken) return;
    const double off = measure::difference_norm(result.comparison->measurement.total);
    const double allowed = result.comparison->tolerance.allowed_norm();
    const std::string words =
        base::concat("; its optimizer cannot be replayed, what it was updated from is good, it is ",
                     base::short_number(off), " off, and the reference's step moves it by ",
                     base::short_number(*meant));
    if (off > allowed + kMostOfReferenceStep * *meant || *taken < kShortestStep * *meant) {
      result.reason =
          base::concat(*taken == 0 ? std::string("did not move")
                                   : base::concat("moved by ", base::short_number(*taken)),
                       words);
      return;
    }
    result.outcome = Outcome::kNotJudged;
    const measure::TileStats& total = result.comparison->measurement.total;
    const double largest = total.largest ? total.largest->difference : 0;
    if (is_spread(total, off, *meant)) {
      result.spread = true;
      result.reason = base::concat("is off by ", base::short_number(off / *meant),
                                   " of a step in many elements, as by a wrong decay or learning "
                                   "rate; its optimizer cannot be replayed");
    } else if (gradients.contradict(result, {off, largest, *meant, *taken})) {
      result.spread = true;
      result.reason = base::concat("is off by ", base::short_number(off / *meant),
                                   " of a step, but its gradient matches; its optimizer cannot be "
                                   "replayed");
    } else {
      result.reason = base::concat("may be rounding alone", words);
    }
  });
}

void reuse_update_verdicts(const trace::Source& candidate,
                           const measure::ExecutionContext& execution,
                           std::vector<TensorComparison>& results) {
  std::map<TensorKey, std::size_t> updates;  // good ones, and those that were not judged
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Outcome outcome = results[i].outcome;
    const bool usable = outcome == Outcome::kMatch || outcome == Outcome::kNotJudged;
    if (results[i].key.kind == Kind::kParamAfterStep && usable && results[i].comparison) {
      updates.emplace(results[i].key, i);
    }
  }
  execution.parallel_for(results.size(), [&](std::size_t i) {
    TensorComparison& result = results[i];
    if (result.outcome != Outcome::kDiverged || result.exact) return;
    const auto before = update_before(result.key);
    const auto found = before ? updates.find(*before) : updates.end();
    if (found == updates.end()) return;
    const TensorComparison& update = results[found->second];
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

}  // namespace ttrace::optimizer
