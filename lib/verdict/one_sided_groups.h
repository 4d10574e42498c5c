// Tensors that one trace lacks, told as one thing: a dropped layer is one finding, not forty.
#pragma once

#include <string>
#include <vector>

#include "verdict/dataflow.h"
#include "verdict/outcome.h"

namespace ttrace::verdict {

// For every node that is missing (or extra) the largest whole that is missing (extra) with it, in
// words: "step 1", "every grad_output of step 0", "layers.3" (a module with all that is below it),
// or its own name. Empty for nodes that both traces have.
std::vector<std::string> one_sided_groups(const std::vector<Node>& nodes,
                                          const std::vector<Outcome>& outcomes);

}  // namespace ttrace::verdict
