// Judges updated parameters by replaying their optimizer from what the candidate itself recorded.
// Noise cannot: Adam turns the sign of a gradient that is all noise into a full step.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "comparison/checkpoint.h"
#include "comparison/measure_pairs.h"
#include "comparison/result.h"
#include "measure/backend.h"
#include "measure/measure_update.h"
#include "trace/source.h"

namespace ttrace::optimizer {

struct UpdatePlan {
  // Without a problem: what to replay. Everything comes from the candidate, except hyperparameters
  // that differ from the reference's: then the reference's, since they are what was meant.
  measure::UpdateTensors tensors;
  measure::UpdateStep step;
  std::string difference;  // describes that of the hyperparameters, or empty
  std::string problem;     // why it cannot be replayed, in words that hold for many parameters
};

// Whether the record is of an updated parameter that was measured.
bool is_measured_update(const comparison::TensorComparison& result);

// Returns the replay of every measured update, by its index in `results`.
std::map<std::size_t, UpdatePlan> plan_replays(
    const trace::Source& reference, const trace::Source& candidate,
    const std::vector<comparison::TensorComparison>& results);

// Returns the replays of `param_after_step` tensors of a run whose parameters got no gradient, as
// an optimizer steps them that is handed zeros.
std::vector<UpdatePlan> plan_with_zero_gradients(
    const trace::Source& run, const std::vector<const trace::TensorEntry*>& updated);

// Whether the update can be replayed and every element is as replayed.
bool is_as_planned(const UpdatePlan& plan, const measure::Backend& backend);

// Replaces the comparison with the reference by the replay. Returns why the parameter is left to
// the other rules instead, or nothing.
std::string replay_one(const UpdatePlan& plan, const measure::Backend& backend,
                       comparison::TensorComparison& result);

// Replaces the measurement of updated parameters that can be replayed by the one against the
// replayed values, when every record has been measured against the reference; all others stay as
// they are. Where hyperparameters differ from the reference's, `reason` says so. Replays that
// `work` knows are not repeated. If `hooks` stop the work, the parameters that are left are marked
// as interrupted: the other rules are not for them. Returns one warning for the run on parameters
// that were not replayed, and one on hyperparameters. The same for every number of threads.
std::vector<std::string> replay_updates(const trace::Source& reference,
                                        const trace::Source& candidate,
                                        const measure::ExecutionContext& execution,
                                        comparison::Checkpoint& work,
                                        const comparison::WorkHooks& hooks,
                                        std::vector<comparison::TensorComparison>& results);

// Judges updated parameters whose optimizer cannot be replayed: an unknown optimizer, a state or a
// hyperparameter that was not recorded. `results` have been judged by the tolerance of all tensors.
// An update that diverges by it becomes `not_judged` if everything recorded that it was made from
// (its parameter, main gradient and optimizer state, the gradient norm) is good, it is off by no
// more than that tolerance and two steps of the reference, and the candidate's step is at least
// half as long as the reference's. An optimizer that divides by the gradient's own size turns the
// sign of a gradient that is all noise into a whole step, so such inputs permit two steps (6 of 15
// healthy pairs were blamed). Everything else keeps its outcome: a parameter that did not move, one
// that moved by more than that, one whose inputs are bad. Reads both parameters of these updates
// again; one that cannot be read keeps its outcome.
void judge_updates_without_replay(const trace::Source& reference, const trace::Source& candidate,
                                  const measure::ExecutionContext& execution,
                                  std::vector<comparison::TensorComparison>& results);

// Judges parameters (or the optimizer's main copies of them) that diverge at the beginning of a
// step by the update of the step before, when every record has its outcome. Where the update
// matches and the candidate's values are still the same, they take its comparison and outcome:
// noise cannot judge what an optimizer has stepped, and the replay has judged it already. Reads
// only the values of parameters that diverge.
void reuse_update_verdicts(const trace::Source& candidate,
                           const measure::ExecutionContext& execution,
                           std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::optimizer
