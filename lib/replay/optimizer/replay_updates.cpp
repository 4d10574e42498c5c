#include "replay/optimizer/replay_updates.h"

#include <cmath>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "comparison/checkpoint.h"
#include "comparison/measure_pairs.h"
#include "replay/optimizer/update_plan.h"

namespace ttrace::replay {
namespace {

using comparison::TensorComparison;
using measure::Algorithm;
using measure::UpdateMeasurement;

bool is_healthy(const UpdateMeasurement& measured) { return measured.total.unequal == 0; }

std::string describe_optimizer(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kNone:
      return "no update";
    case Algorithm::kSgd:
      return "sgd";
    case Algorithm::kAdam:
      return "adam";
    case Algorithm::kAdamW:
      return "adamw";
  }
  return "";
}

// Puts the replay in the place of the comparison with the reference.
void adopt(const UpdatePlan& plan, UpdateMeasurement measured, TensorComparison& result) {
  comparison::ComparedNumbers& comparison = *result.comparison;
  measure::Measurement& measurement = comparison.measurement;
  comparison::Replay replay;
  replay.of = describe_optimizer(plan.step.hyperparameters.algorithm);
  replay.updates = plan.step.hyperparameters.updates;
  replay.outside = measured.total.unequal;
  replay.unmoved = measured.unmoved;
  replay.bound_norm = std::sqrt(measured.sum_bound2);
  replay.worst = std::move(measured.worst);
  replay.reference_difference_norm = measure::difference_norm(measurement.total);
  replay.reference_norm = measure::reference_norm(measurement.total);
  comparison.replay = std::move(replay);
  measurement.total = std::move(measured.total);
  measurement.blocks = std::move(measured.blocks);
  // The replayed value is not the reference, of which alone the noise is known.
  comparison.noise.reset();
  measurement.bytes_read += measured.bytes_read;
  measurement.largest_place = measured.largest_place;
  result.largest_rank.reset();
  if (const auto& place = measurement.largest_place) {
    result.largest_rank = place->rank;
    result.largest_local = place->local;
  }
}

std::string listed(const std::map<std::string, std::uint64_t>& counts) {
  std::string text;
  for (const auto& [what, count] : counts) {
    text += base::concat(text.empty() ? "" : "; ", what, " (", count, ")");
  }
  return text;
}

bool is_updated(const TensorComparison& result) {
  return result.key.kind == trace::Kind::kParamAfterStep && result.comparison && !result.exact;
}

// `plan` has no problem.
comparison::FinishedReplay replayed(const UpdatePlan& plan, const measure::Backend& backend) {
  comparison::FinishedReplay finished;
  finished.clip = plan.step.clip;
  try {
    UpdateMeasurement measured = measure::measure_update(backend, plan.tensors, plan.step);
    const Algorithm algorithm = plan.step.hyperparameters.algorithm;
    if (!is_healthy(measured) &&
        (algorithm == Algorithm::kAdam || algorithm == Algorithm::kAdamW)) {
      // Fused implementations make their constants in single precision.
      measure::UpdateStep fused = plan.step;
      fused.rounding.single_constants = true;
      UpdateMeasurement again = measure::measure_update(backend, plan.tensors, fused);
      again.bytes_read += measured.bytes_read;
      if (is_healthy(again)) measured = std::move(again);
    }
    if (is_healthy(measured) && measured.unjudged > 0) {
      finished.problem = "some of its elements may be anything, by underflow";
    } else {
      finished.measured = std::move(measured);
    }
  } catch (const base::InputError&) {
    finished.problem = "its parameter, gradient or state cannot be read";
  }
  return finished;
}

// What is known of the pair's replay, where the gradients were clipped as they now turn out to be.
std::optional<comparison::FinishedReplay> known_replay(comparison::Checkpoint& work,
                                                       comparison::FinishedChecks& checks,
                                                       const comparison::Pair& pair,
                                                       const UpdatePlan& plan) {
  if (!plan.problem.empty()) return std::nullopt;
  auto known = work.take<comparison::FinishedReplay>(pair.key);
  if (!known || known->clip != plan.step.clip) return std::nullopt;
  checks.require_fits(*known, pair);
  return known;
}

std::string adopt_if_sound(const UpdatePlan& plan, comparison::FinishedReplay finished,
                           TensorComparison& result) {
  if (finished.problem.empty()) adopt(plan, std::move(finished.measured), result);
  return finished.problem;
}

}  // namespace

std::string replay_one(const UpdatePlan& plan, const measure::Backend& backend,
                       TensorComparison& result) {
  if (!plan.problem.empty()) return plan.problem;
  return adopt_if_sound(plan, replayed(plan, backend), result);
}

std::map<std::size_t, UpdatePlan> plan_replays(const trace::Source& reference,
                                               const trace::Source& candidate,
                                               const std::vector<TensorComparison>& results) {
  MainGradientNorms gradients(candidate,
                              squares_of_main_gradients(results, &comparison::Pair::candidate));
  Clipping clipping(candidate, gradients);
  const UpdatePlanner planner(reference, candidate, clipping);
  std::map<std::size_t, UpdatePlan> plans;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (is_updated(results[i])) plans.emplace(i, planner.plan(results[i]));
  }
  return plans;
}

std::vector<std::string> replay_updates(const trace::Source& reference,
                                        const trace::Source& candidate,
                                        const measure::ExecutionContext& execution,
                                        comparison::Checkpoint& work,
                                        const comparison::WorkHooks& hooks,
                                        std::vector<TensorComparison>& results) {
  if (hooks.stopped()) {  // planning may read all gradients
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (is_updated(results[i])) comparison::mark_interrupted(results[i]);
    }
    return {};
  }
  std::vector<std::size_t> updated;
  std::vector<UpdatePlan> plans;
  for (const auto& [i, plan] : plan_replays(reference, candidate, results)) {
    updated.push_back(i);
    plans.push_back(plan);
  }

  comparison::FinishedChecks checks(candidate);
  std::vector<std::optional<comparison::FinishedReplay>> known(updated.size());
  for (std::size_t u = 0; u < updated.size(); ++u) {
    known[u] = known_replay(work, checks, results[updated[u]], plans[u]);
  }
  std::vector<std::string> problems(updated.size());
  execution.parallel_for(updated.size(), [&](std::size_t u) {
    TensorComparison& result = results[updated[u]];
    if (!plans[u].problem.empty()) {
      problems[u] = plans[u].problem;
    } else if (!known[u] && hooks.stopped()) {
      comparison::mark_interrupted(result);
      return;
    } else {
      const bool again = known[u].has_value();
      comparison::FinishedReplay finished =
          again ? *std::move(known[u]) : replayed(plans[u], *execution.backend);
      if (work.is_recorded()) {
        const comparison::Finished told{result.key, finished};
        again ? work.record_again(told) : work.record(told);
      }
      problems[u] = adopt_if_sound(plans[u], std::move(finished), result);
    }
    if (!plans[u].difference.empty()) result.reason = plans[u].difference;
  });

  std::map<std::string, std::uint64_t> unplayed;
  std::map<std::string, std::uint64_t> different;
  std::uint64_t unplayed_count = 0;
  std::uint64_t different_count = 0;
  for (std::size_t u = 0; u < updated.size(); ++u) {
    if (!problems[u].empty()) ++unplayed[problems[u]], ++unplayed_count;
    if (!plans[u].difference.empty()) ++different[plans[u].difference], ++different_count;
  }
  std::vector<std::string> warnings;
  if (unplayed_count > 0) {
    warnings.push_back(base::concat(
        unplayed_count, " of ", base::plural(updated.size(), "updated parameter"),
        " could not be judged by replaying the optimizer, only by the tolerance of the others, "
        "which is wider: ",
        listed(unplayed)));
  }
  if (different_count > 0) {
    warnings.push_back(
        base::concat("the optimizer was told something else than in the reference for ",
                     base::plural(different_count, "updated parameter"), ": ", listed(different)));
  }
  return warnings;
}

}  // namespace ttrace::replay
