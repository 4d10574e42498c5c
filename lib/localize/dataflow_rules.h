// What each kind of tensor depends on.
#pragma once

#include <cstddef>
#include <vector>

#include "localize/module_graph.h"
#include "localize/node_index.h"

namespace ttrace::localize {

// Direct dependencies of node `i` by the modules' data flow and, between parameters and gradients,
// by name. May contain `i` and repetitions.
std::vector<std::size_t> dependencies(const NodeIndex& index, const ModuleGraph& graph,
                                      std::size_t i);

// For a trace without modules: activations and their gradients chained in execution order within a
// step, apart for tensors that other ranks hold; result[i] lists what node i depends on beyond
// dependencies().
std::vector<std::vector<std::size_t>> execution_chain(const std::vector<Node>& nodes);

}  // namespace ttrace::localize
