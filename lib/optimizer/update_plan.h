// What the replay of an update reads: the parameter, its gradient, the state of the optimizer.
#pragma once

#include <cstddef>
#include <functional>
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

// Whether a job that is right changes a parameter by hand: behind its optimizer's step, as it
// clamps or decays weights, or one that no optimizer trains, as a slow copy of others. Such an
// update is none that the optimizer alone makes.
using IsRewritten = std::function<bool(std::uint64_t step, const std::string& parameter)>;

// What the run itself says of that. The manifest must outlive the answer.
IsRewritten rewritten_in(const trace::Manifest& manifest);

// Whether the record is of an updated parameter that was measured.
bool is_measured_update(const comparison::TensorComparison& result);

// Returns the replay of every measured update, by its index in `results`. `is_rewritten` takes the
// reference's names.
std::map<std::size_t, UpdatePlan> plan_replays(
    const trace::Source& reference, const trace::Source& candidate, const IsRewritten& is_rewritten,
    const std::vector<comparison::TensorComparison>& results);

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
