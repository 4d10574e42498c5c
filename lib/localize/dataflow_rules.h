// The rules by which a tensor depends on others. Their evidence: lib/localize/README.md.
#pragma once

#include <cstddef>
#include <vector>

#include "localize/dataflow_index.h"

namespace ttrace::localize {

// Returns the direct dependencies of node `i` by the modules' data flow and, between parameters and
// gradients, by name (dataflow_rules.cpp). May contain `i` and repetitions.
std::vector<std::size_t> dependencies(const NodeIndex& index, const ModuleGraph& graph,
                                      std::size_t i);

}  // namespace ttrace::localize
