// What the replay of an update reads: the parameter, its gradient, the state of the optimizer.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "comparison/tensor_comparison.h"
#include "measure/measure_update.h"
#include "trace/source.h"

namespace ttrace::optimizer {

struct UpdatePlan {
  // If there is no problem: what to replay. All of it comes from the candidate, but where
  // hyperparameters differ, the reference's are taken, since they are what was meant.
  measure::UpdateTensors tensors;
  measure::UpdateStep step;
  std::string difference;   // describes that of the hyperparameters, or empty
  std::string problem;      // why it cannot be replayed, in words that hold for many parameters
  bool unreadable = false;  // a read failed, and the problem says how
};

// Whether the record is of an updated parameter that was measured.
bool is_measured_update(const comparison::TensorComparison& result);

// Returns the replay of every measured update, by its index in `results`.
std::map<std::size_t, UpdatePlan> plan_replays(
    const trace::Source& reference, const trace::Source& candidate,
    const std::vector<comparison::TensorComparison>& results);

// Returns the replays of the reference's own updates in `which` of the results, by the settings and
// values that it recorded itself.
std::map<std::size_t, UpdatePlan> plan_own_replays(
    const trace::Source& reference, const std::vector<comparison::TensorComparison>& results,
    const std::vector<std::size_t>& which);

// Returns the replays of the candidate's updates in `which` of the results with its own settings,
// whatever the reference's are.
std::map<std::size_t, UpdatePlan> plan_by_own_settings(
    const trace::Source& candidate, const std::vector<comparison::TensorComparison>& results,
    const std::vector<std::size_t>& which);

// Returns the replays of `param_after_step` tensors of a run whose parameters got no gradient, as
// if the optimizer were given gradients of zeros.
std::vector<UpdatePlan> plan_with_zero_gradients(
    const trace::Source& run, const std::vector<const trace::TensorEntry*>& updated);

}  // namespace ttrace::optimizer
