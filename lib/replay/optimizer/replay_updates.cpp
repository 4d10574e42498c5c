#include "replay/optimizer/replay_updates.h"

#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/text.h"

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

// Replaces the comparison with the reference by the replay.
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
  // Noise is known of the reference only, not of the replayed value.
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

std::uint64_t total(const std::map<std::string, std::uint64_t>& counts) {
  std::uint64_t sum = 0;
  for (const auto& [what, count] : counts) sum += count;
  return sum;
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
      // Fused implementations compute their constants in single precision.
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

// Returns the finished replay of the pair, if the gradients were clipped by the same factor.
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

struct Update {
  const UpdatePlan* plan = nullptr;
  TensorComparison* result = nullptr;
  std::optional<comparison::FinishedReplay> known;
  std::string problem;
};

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

std::vector<std::string> replay_updates(const trace::Source& reference,
                                        const trace::Source& candidate,
                                        const measure::ExecutionContext& execution,
                                        comparison::Checkpoint& work,
                                        const comparison::WorkHooks& hooks,
                                        std::vector<TensorComparison>& results) {
  if (hooks.stopped()) {  // planning may read all gradients
    for (TensorComparison& result : results) {
      if (is_measured_update(result)) comparison::mark_interrupted(result);
    }
    return {};
  }
  const std::map<std::size_t, UpdatePlan> plans = plan_replays(reference, candidate, results);
  comparison::FinishedChecks checks(candidate);
  std::vector<Update> updates;
  for (const auto& [i, plan] : plans) {
    updates.push_back(
        {&plan, &results[i], known_replay(work, checks, results[i], plan), plan.problem});
  }
  execution.parallel_for(updates.size(), [&](std::size_t u) {
    auto& [plan, result, known, problem] = updates[u];
    if (problem.empty()) {
      if (!known && hooks.stopped()) {
        comparison::mark_interrupted(*result);
        return;
      }
      const bool again = known.has_value();
      comparison::FinishedReplay finished =
          again ? *std::move(known) : replayed(*plan, *execution.backend);
      if (work.is_recorded()) {
        const comparison::Finished entry{result->key, finished};
        again ? work.record_again(entry) : work.record(entry);
      }
      problem = adopt_if_sound(*plan, std::move(finished), *result);
    }
    if (!plan->difference.empty()) result->reason = plan->difference;
  });

  std::map<std::string, std::uint64_t> problems;
  std::map<std::string, std::uint64_t> differences;
  for (const Update& update : updates) {
    if (!update.problem.empty()) ++problems[update.problem];
    if (!update.plan->difference.empty()) ++differences[update.plan->difference];
  }
  std::vector<std::string> warnings;
  if (!problems.empty()) {
    warnings.push_back(base::concat(
        total(problems), " of ", base::plural(updates.size(), "updated parameter"),
        " could not be judged by replaying the optimizer, only by the tolerance of the others, "
        "which is wider: ",
        listed(problems)));
  }
  if (!differences.empty()) {
    warnings.push_back(base::concat(
        "the optimizer had other settings than in the reference for ",
        base::plural(total(differences), "updated parameter"), ": ", listed(differences)));
  }
  return warnings;
}

}  // namespace ttrace::replay
