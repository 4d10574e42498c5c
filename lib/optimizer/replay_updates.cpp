#include "optimizer/replay_updates.h"

#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "measure/measure_update.h"
#include "optimizer/update_plan.h"

namespace ttrace::optimizer {
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

std::string listed(const std::map<std::string, std::uint64_t>& counts) {
  std::string text;
  for (const auto& [what, count] : counts) {
    text += base::concat(text.empty() ? "" : "; ", what, " (", count, ")");
  }
  return text;
}

std::uint64_t total_count(const std::map<std::string, std::uint64_t>& counts) {
  std::uint64_t sum = 0;
  for (const auto& [what, count] : counts) sum += count;
  return sum;
}

// One update being replayed, section by section, by several threads. The plan has no problem.
class UpdateWork {
 public:
  UpdateWork(const UpdatePlan& plan, const measure::Backend& backend)
      : plan_(plan),
        backend_(backend),
        step_(plan.step),
        sections_(measure::sections_of(plan.tensors.after.view->shape)),
        unreadable_(sections_.size()) {
    begin();
  }

  std::size_t sections() const { return sections_.size(); }

  // Measures one section; each is measured once, by any thread. Returns true for the last one to
  // end.
  bool measure(std::size_t section) {
    try {
      measured_[section] =
          measure::measure_update_section(backend_, plan_.tensors, step_, sections_[section]);
    } catch (const base::InputError& error) {
      unreadable_[section] = error.what();
    }
    return --left_ == 0;
  }

  // Call it once all sections are measured. Returns true if they are to be measured once more:
  // fused implementations compute their constants in single precision.
  bool is_to_be_repeated() {
    if (!why_unreadable().empty()) return false;
    UpdateMeasurement measured = measure::merge_sections(std::move(measured_));
    const Algorithm algorithm = step_.hyperparameters.algorithm;
    const bool adam = algorithm == Algorithm::kAdam || algorithm == Algorithm::kAdamW;
    if (first_) {
      measured.bytes_read += first_->bytes_read;
      if (!is_healthy(measured)) std::swap(measured, *first_);
    } else if (!is_healthy(measured) && adam) {
      first_ = std::move(measured);
      step_.rounding.single_constants = true;
      begin();
      return true;
    }
    whole_ = std::move(measured);
    return false;
  }

  // Call it once nothing is to be repeated. Throws an input error if something cannot be read.
  comparison::FinishedReplay finish() {
    if (!why_unreadable().empty()) throw base::InputError(why_unreadable());
    comparison::FinishedReplay finished;
    finished.clip = plan_.step.clip;
    if (is_healthy(whole_) && whole_.unjudged > 0) {
      finished.problem = "some of its elements may be anything, by underflow";
    } else {
      finished.measured = std::move(whole_);
    }
    return finished;
  }

 private:
  // Returns the reason of the first section that failed, whichever thread failed first.
  std::string why_unreadable() const {
    for (const std::string& why : unreadable_) {
      if (!why.empty()) return why;
    }
    return "";
  }

  void begin() {
    measured_.assign(sections_.size(), {});
    left_ = sections_.size();
  }

  const UpdatePlan& plan_;
  const measure::Backend& backend_;
  measure::UpdateStep step_;
  std::vector<tensor::Box> sections_;
  std::vector<UpdateMeasurement> measured_;
  std::atomic<std::size_t> left_ = 0;
  std::vector<std::string> unreadable_;     // why, by section; or empty
  std::optional<UpdateMeasurement> first_;  // once it is repeated
  UpdateMeasurement whole_;
};

// `plan` has no problem. Throws an input error if something cannot be read.
comparison::FinishedReplay replayed(const UpdatePlan& plan, const measure::Backend& backend) {
  UpdateWork work(plan, backend);
  do {
    for (std::size_t section = 0; section < work.sections(); ++section) work.measure(section);
  } while (work.is_to_be_repeated());
  return work.finish();
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
  std::unique_ptr<UpdateWork> work;  // while it is replayed
};

std::size_t index_of(const Update& update, const std::vector<TensorComparison>& results) {
  return static_cast<std::size_t>(update.result - results.data());
}

std::string adopt_if_sound(const UpdatePlan& plan, comparison::FinishedReplay finished,
                           TensorComparison& result) {
  if (finished.problem.empty()) {
    const measure::Hyperparameters& by = plan.step.hyperparameters;
    adopt_replay(describe_optimizer(by.algorithm), by.updates, std::move(finished.measured),
                 result);
  }
  return finished.problem;
}

// Without the data that could not be read, the update is not known: no other rule judges it.
void leave_unreadable(Update& update, std::string why, comparison::Checkpoint& work) {
  comparison::mark_unreadable(*update.result, std::move(why));
  comparison::record_measurement(work, *update.result);
}

void finish(Update& update, comparison::FinishedReplay finished, comparison::Checkpoint& work) {
  if (work.is_recorded()) {
    const comparison::Finished entry{update.result->key, finished};
    update.known ? work.record_again(entry) : work.record(entry);
  }
  update.problem = adopt_if_sound(*update.plan, std::move(finished), *update.result);
}

// Marks the updates that the optimizer makes with the run's own settings, where these are not the
// reference's: they follow from the settings.
void find_consequences(const trace::Source& candidate, const measure::ExecutionContext& execution,
                       std::vector<TensorComparison>& results, const std::vector<Update>& updates) {
  std::vector<std::size_t> wrong;
  for (const Update& update : updates) {
    const auto& compared = update.result->comparison;
    const bool other = update.problem.empty() && !update.plan->difference.empty();
    if (other && compared && compared->replay && compared->replay->outside > 0) {
      wrong.push_back(index_of(update, results));
    }
  }
  const std::map<std::size_t, UpdatePlan> own = plan_by_own_settings(candidate, results, wrong);
  execution.parallel_for(wrong.size(), [&](std::size_t w) {
    try {
      results[wrong[w]].by_setting = is_as_planned(own.at(wrong[w]), *execution.backend);
    } catch (const base::InputError&) {
      // It was readable a moment ago; the divergence stands by itself.
    }
  });
}

// Replays once every update that has work, and finishes those that need not be repeated. If `hooks`
// stop it, the remaining updates keep their work.
void replay_all(std::vector<Update>& updates, const measure::ExecutionContext& execution,
                comparison::Checkpoint& work, const comparison::WorkHooks& hooks) {
  std::vector<std::pair<Update*, std::size_t>> tasks;
  for (Update& update : updates) {
    if (!update.work) continue;
    for (std::size_t section = 0; section < update.work->sections(); ++section) {
      tasks.emplace_back(&update, section);
    }
  }
  execution.parallel_for(tasks.size(), [&](std::size_t t) {
    const auto [update, section] = tasks[t];
    if (hooks.stopped() || !update->work->measure(section)) return;
    if (update->work->is_to_be_repeated()) return;
    try {
      finish(*update, update->work->finish(), work);
    } catch (const base::InputError& error) {
      leave_unreadable(*update, error.what(), work);
    }
    update->work.reset();
  });
}

}  // namespace

void adopt_replay(std::string of, std::uint64_t updates, UpdateMeasurement measured,
                  TensorComparison& result) {
  comparison::ComparedNumbers& comparison = *result.comparison;
  measure::Measurement& measurement = comparison.measurement;
  comparison::Replay replay;
  replay.of = std::move(of);
  replay.updates = updates;
  replay.outside = measured.total.unequal;
  replay.unmoved = measured.unmoved;
  replay.bound_norm = std::sqrt(measured.sum_bound2);
  replay.worst = std::move(measured.worst);
  const auto& before = comparison.replay;
  replay.reference_difference_norm =
      before ? before->reference_difference_norm : measure::difference_norm(measurement.total);
  replay.reference_norm =
      before ? before->reference_norm : measure::reference_norm(measurement.total);
  comparison.replay = std::move(replay);
  measurement.total = std::move(measured.total);
  measurement.blocks = std::move(measured.blocks);
  // Noise is known of the reference only, not of the replayed value.
  comparison.noise.reset();
  measurement.bytes_read += measured.bytes_read;
  measurement.largest_place = measured.largest_place;
}

bool is_as_planned(const UpdatePlan& plan, const measure::Backend& backend) {
  if (!plan.problem.empty()) return false;
  const comparison::FinishedReplay finished = replayed(plan, backend);
  return finished.problem.empty() && is_healthy(finished.measured);
}

std::string replay_one(const UpdatePlan& plan, const measure::Backend& backend,
                       TensorComparison& result) {
  if (!plan.problem.empty()) return plan.problem;
  return adopt_if_sound(plan, replayed(plan, backend), result);
}

ReplayedUpdates replay_updates(const trace::Source& reference, const trace::Source& candidate,
                               const IsRewritten& is_rewritten,
                               const measure::ExecutionContext& execution,
                               comparison::Checkpoint& work, const comparison::WorkHooks& hooks,
                               std::vector<TensorComparison>& results) {
  if (hooks.stopped()) {  // planning may read all gradients
    for (TensorComparison& result : results) {
      if (is_measured_update(result)) comparison::mark_interrupted(result);
    }
    return {};
  }
  const std::map<std::size_t, UpdatePlan> plans =
      plan_replays(reference, candidate, is_rewritten, results);
  comparison::FinishedChecks checks(candidate);
  std::vector<Update> updates;
  for (const auto& [i, plan] : plans) {
    updates.push_back(
        {&plan, &results[i], known_replay(work, checks, results[i], plan), plan.problem, nullptr});
  }
  for (Update& update : updates) {
    if (update.plan->unreadable) {
      leave_unreadable(update, std::exchange(update.problem, ""), work);
    } else if (!update.problem.empty()) {
      continue;
    } else if (update.known) {
      finish(update, *update.known, work);
    } else {
      update.work = std::make_unique<UpdateWork>(*update.plan, *execution.backend);
    }
  }
  replay_all(updates, execution, work, hooks);
  replay_all(updates, execution, work, hooks);  // those that are to be repeated
  find_consequences(candidate, execution, results, updates);
  for (Update& update : updates) {
    if (update.work) {
      comparison::mark_interrupted(*update.result);
    } else if (!update.plan->difference.empty() && update.result->comparison) {
      update.result->reason = update.plan->difference;
    }
  }

  ReplayedUpdates replayed;
  std::map<std::string, std::uint64_t> problems;
  std::map<std::string, std::uint64_t> differences;
  for (const Update& update : updates) {
    if (!update.problem.empty()) {
      ++problems[update.problem];
      replayed.problems.emplace(index_of(update, results), update.problem);
    }
    if (!update.plan->difference.empty()) ++differences[update.plan->difference];
  }
  if (!problems.empty()) {
    replayed.warnings.push_back(base::concat(
        total_count(problems), " of ", base::plural(updates.size(), "updated parameter"),
        " could not be judged by replaying the optimizer, only by the tolerance of the others, "
        "which is wider: ",
        listed(problems)));
  }
  if (!differences.empty()) {
    replayed.warnings.push_back(base::concat(
        "the optimizer had other settings than in the reference for ",
        base::plural(total_count(differences), "updated parameter"), ": ", listed(differences)));
  }
  return replayed;
}

}  // namespace ttrace::optimizer
