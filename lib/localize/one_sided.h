// Tensors that only one of the traces has.
#pragma once

#include <string>
#include <vector>

#include "judge/outcome.h"
#include "localize/dataflow.h"

namespace ttrace::localize {

// Returns for every node that is missing (or extra) the largest whole that is missing (extra) with
// it: "step 1", "micro-batch 2 (step 0)", "every grad_output of step 0", "layers.3" (a module with
// all that is below it), or its own name. Empty for nodes that both traces have. A dropped layer is
// one finding, not forty.
std::vector<std::string> one_sided_groups(const std::vector<FlowNode>& nodes,
                                          const std::vector<judge::Outcome>& outcomes);

// Sets `nearest` of the missing and the extra tensors: names of the other side's unmatched tensors
// of the same kind and shape, the most alike first.
void find_nearest_names(std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::localize
