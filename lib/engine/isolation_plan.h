// Makes the plan of a second pair of runs, in which no error travels between modules.
#pragma once

#include <set>
#include <string>

#include "replay/audit/isolation.h"
#include "trace/source.h"

namespace ttrace::engine {

// Overwrites the floating-point inputs and output gradients of these modules that both runs
// recorded, with mean and deviation as the reference has them in its first step and micro-batch.
// Leaves alone what has at most two different values or values that are not finite, as masks have,
// and what lies in rows by index, which the collector cannot generate. Throws an input error if
// nothing is left.
replay::RewritingPlan isolation_plan(const trace::Source& reference, const trace::Source& candidate,
                                     const std::set<std::string>& modules);

}  // namespace ttrace::engine
