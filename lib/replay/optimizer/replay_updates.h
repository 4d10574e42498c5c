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

// The replay of every updated parameter that was measured, by its index in `pairs`.
std::map<std::size_t, UpdatePlan> plan_replays(const trace::Source& reference,
                                               const trace::Source& candidate,
                                               const std::vector<comparison::Result>& results);

// Puts the replay in the place of the comparison with the reference. Returns why the parameter is
// left to the other rules instead, or nothing.
std::string replay_one(const UpdatePlan& plan, const measure::Backend& backend,
                       comparison::Result& result);

// Every record has been measured against the reference. Those of updated
// parameters that can be replayed get the measurement against the replayed values in its place;
// the others are left as they are. Where hyperparameters differ from the reference's, `reason` says
// so. What `work` knows is not replayed again. If `hooks` stop the work, those that are left are
// marked as interrupted: the other rules are not for them. Returns one sentence for the whole run
// on each of both. The same for every number of threads.
std::vector<std::string> replay_updates(const trace::Source& reference,
                                        const trace::Source& candidate,
                                        const measure::ExecutionContext& execution,
                                        comparison::FinishedWork& work,
                                        const comparison::WorkHooks& hooks,
                                        std::vector<comparison::Result>& results);

}  // namespace ttrace::replay
