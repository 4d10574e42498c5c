// Judges updated parameters by replaying their optimizer from what the candidate itself recorded.
// Noise cannot: Adam turns the sign of a gradient that is all noise into a full step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comparison/checkpoint/checkpoint.h"
#include "comparison/measure_pairs.h"
#include "comparison/result.h"
#include "measure/backend.h"
#include "measure/measure_update.h"
#include "optimizer/update_plan.h"
#include "trace/source.h"

namespace ttrace::optimizer {

// Whether the update can be replayed and every element is as replayed. Throws an input error if
// something cannot be read.
bool is_as_planned(const UpdatePlan& plan, const measure::Backend& backend);

// Replaces the comparison with the reference by the replay. Returns why the parameter is left to
// the other rules instead, or nothing. Throws an input error if something cannot be read.
std::string replay_one(const UpdatePlan& plan, const measure::Backend& backend,
                       comparison::TensorComparison& result);

// Replaces the comparison of an updated parameter with the reference by a measurement against what
// `of` makes of the candidate's own numbers.
void adopt_replay(std::string of, std::uint64_t updates, measure::UpdateMeasurement measured,
                  comparison::TensorComparison& result);

struct ReplayedUpdates {
  // One for the run on parameters that were not replayed, and one on hyperparameters.
  std::vector<std::string> warnings;
  std::map<std::size_t, std::string> problems;  // why result i was not replayed
};

// Replaces the measurement of updated parameters that can be replayed by the one against the
// replayed values, when every record has been measured against the reference; all others stay as
// they are, and so do those that `is_rewritten`. Where hyperparameters differ from the reference's,
// `reason` says so. Replays that `work` knows are not repeated. If `hooks` stop the work, the
// parameters that are left are marked as interrupted: the other rules are not for them; where a
// read fails, they are unreadable. The same for every number of threads.
ReplayedUpdates replay_updates(const trace::Source& reference, const trace::Source& candidate,
                               const IsRewritten& is_rewritten,
                               const measure::ExecutionContext& execution,
                               comparison::Checkpoint& work, const comparison::WorkHooks& hooks,
                               std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::optimizer
