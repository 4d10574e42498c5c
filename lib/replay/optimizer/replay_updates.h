// Judges updated parameters by replaying their optimizer from what the candidate itself recorded.
// Noise cannot: Adam turns the sign of a gradient that is all noise into a full step.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "comparison/checkpoint.h"
#include "comparison/measure_pairs.h"
#include "comparison/pairing.h"
#include "comparison/result.h"
#include "measure/execution_context.h"
#include "replay/optimizer/update_plan.h"
#include "trace/source.h"

namespace ttrace::replay {

// The replay of every updated parameter that was measured, by its index in `results`.
std::map<std::size_t, UpdatePlan> plan_replays(
    const trace::Source& reference, const trace::Source& candidate,
    const std::vector<comparison::TensorComparison>& results);

// Puts the replay in the place of the comparison with the reference. Returns why the parameter is
// left to the other rules instead, or nothing.
std::string replay_one(const UpdatePlan& plan, const measure::Backend& backend,
                       comparison::TensorComparison& result);

// Call it when every record has been measured against the reference. Updated parameters that can be
// replayed get the measurement against the replayed values instead;
// the others are left as they are. Where hyperparameters differ from the reference's, `reason` says
// so. What `work` knows is not replayed again. If `hooks` stop the work, those that are left are
// marked as interrupted: the other rules are not for them. Returns one sentence for the whole run
// on each of both. The same for every number of threads.
std::vector<std::string> replay_updates(const trace::Source& reference,
                                        const trace::Source& candidate,
                                        const measure::ExecutionContext& execution,
                                        comparison::Checkpoint& work,
                                        const comparison::WorkHooks& hooks,
                                        std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::replay
