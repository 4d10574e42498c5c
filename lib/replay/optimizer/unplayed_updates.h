// Updated parameters whose optimizer cannot be replayed: an unknown optimizer, a state or a
// hyperparameter that was not recorded.
#pragma once

#include <vector>

#include "comparison/pairing.h"
#include "comparison/result.h"
#include "measure/execution_context.h"

namespace ttrace::replay {

// `results`: judged so far by the tolerance of all tensors. An update that
// diverges by it becomes `not_judged` if everything recorded that it was made from (its parameter,
// main gradient and optimizer state, the gradient norm) is good, it is off by no more than that
// tolerance and two steps of the reference, and the candidate's step is at least half as long as
// the reference's. An optimizer that divides by the gradient's own size turns the sign of a
// gradient that is all noise into a whole step, so such inputs permit two steps (6 of 15 healthy
// pairs were blamed). Everything else keeps its outcome: a parameter that did not move, one that
// moved by more than that, one whose inputs are bad. Reads both parameters of these updates again;
// one that cannot be read keeps its outcome.
void judge_unplayed_updates(const trace::Source& reference, const trace::Source& candidate,
                            const measure::ExecutionContext& execution,
                            std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::replay
