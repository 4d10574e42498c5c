// Judges updated parameters that no replay of their optimizer has judged.
#pragma once

#include <vector>

#include "comparison/tensor_comparison.h"
#include "measure/backend.h"
#include "trace/source.h"

namespace ttrace::optimizer {

// Judges updated parameters whose optimizer cannot be replayed: an unknown optimizer, a state or a
// hyperparameter that was not recorded. `results` have been judged by the tolerance of all tensors.
// An update that diverges by it becomes `not_judged` if all its recorded inputs (its parameter,
// main gradient and optimizer state, the gradient norm) are good, its step is off by no more than
// that tolerance and two steps of the reference, and is at least half as long as the reference's.
// An optimizer that divides by the gradient's own size turns the sign of a gradient that is all
// noise into a whole step, so such inputs permit two steps (6 of 15 healthy pairs were blamed).
// Where its gradient is too good for that, or many elements are off by little, it is marked as
// spread, which leaves the comparison inconclusive; but where noise runs say that rounding moves it
// by a sixteenth at most, it diverges. Everything else keeps its outcome: a parameter that did not
// move, one that moved by more than that, one whose inputs are bad, and a step that no
// rounding of its gradient explains. Reads both parameters and gradients of these updates again;
// one that cannot be read is marked so.
//
// Parameters (or the optimizer's main copies of them) that diverge at the beginning of a step, and
// still have the values that the step before left in the candidate, take the outcome of that
// update: noise cannot judge a parameter after an optimizer's step.
void judge_updates_without_replay(const trace::Source& reference, const trace::Source& candidate,
                                  const measure::ExecutionContext& execution,
                                  std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::optimizer
