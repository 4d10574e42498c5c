// Judges updated parameters by replaying their optimizer from what the candidate itself recorded.
// Noise cannot: Adam turns the sign of a gradient that is all noise into a full step.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "engine/pairing.h"
#include "engine/update_plan.h"
#include "report/compare_report.h"
#include "trace/source.h"

namespace ttrace::engine {

// The replay of every updated parameter that was measured, by its index in `pairs`.
std::map<std::size_t, UpdatePlan> plan_replays(const trace::Source& reference,
                                               const trace::Source& candidate,
                                               const std::vector<Pair>& pairs,
                                               const std::vector<report::Result>& results);

// Puts the replay in the place of the comparison with the reference. Returns why the parameter is
// left to the other rules instead, or nothing.
std::string replay_one(const UpdatePlan& plan, report::Result& result);

// results[i] belongs to pairs[i] and has been measured against the reference. Those of updated
// parameters that can be replayed get the measurement against the replayed values in its place;
// the others are left as they are. Where hyperparameters differ from the reference's, `reason` says
// so. Returns one sentence for the whole run on each of both. The same for every number of threads.
std::vector<std::string> replay_updates(const trace::Source& reference,
                                        const trace::Source& candidate,
                                        const std::vector<Pair>& pairs, unsigned threads,
                                        std::vector<report::Result>& results);

}  // namespace ttrace::engine
