// Second suspects: bad tensors that no bad dependency accounts for.
#pragma once

#include <vector>

#include "comparison/result.h"
#include "judge/outcome.h"
#include "localize/dataflow.h"
#include "localize/frontier.h"

namespace ttrace::localize {

// Returns second suspects: diverged nodes downstream of the frontier whose used share is more than
// kMostCarried times that of everything they directly depend on, in the order of the data flow. A
// dependency without a used share may explain anything, so what depends on it is no suspect; nor is
// what depends on nothing. A gradient that comes back through a module is also compared with that
// module's inputs and outputs. The loss is a mean, whose error says little: a gradient that follows
// from the loss alone is compared with what the loss was computed from, if its own value is among
// that, and is no suspect otherwise.
std::vector<answer::Suspect> second_suspects(const std::vector<FlowNode>& nodes,
                                             const Dataflow& flow,
                                             const std::vector<judge::Outcome>& outcomes,
                                             const UsedShares& used,
                                             const std::vector<bool>& on_frontier);

// The second suspects of a whole comparison, from its frontier and records.
std::vector<answer::Suspect> suspects_of(const std::vector<FlowNode>& nodes, const Dataflow& flow,
                                         const Frontier& frontier,
                                         const std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::localize
