// Finds the first divergences, and reports tensors that are missing together as one: a dropped
// layer is one finding, not forty.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "judge/outcome.h"
#include "localize/dataflow.h"

namespace ttrace::localize {

// For every node that is missing (or extra) the largest whole that is missing (extra) with it, in
// words: "step 1", "every grad_output of step 0", "layers.3" (a module with all that is below it),
// or its own name. Empty for nodes that both traces have.
std::vector<std::string> one_sided_groups(const std::vector<Node>& nodes,
                                          const std::vector<judge::Outcome>& outcomes);

// The first divergences: bad tensors that depend on no other bad tensor. There may be several, one
// for every bug. Copies that differ are explained by copies that differ alone (or by a tensor that
// is missing or of another shape): a value that is wrong before them is wrong on all replicas
// alike, so a sum that was left out shows behind another bug too. Source: lib/localize/README.md

struct Finding {
  std::size_t first = 0;             // node that stands for the finding
  std::vector<std::size_t> members;  // missing tensors told together; otherwise `first` alone
  std::string one_sided_group;       // what is missing as a whole ("layers.3", "kind grad_output")
  std::vector<std::size_t> downstream;  // bad nodes that depend on it and are no finding, ascending
};

struct Frontier {
  std::vector<Finding> findings;  // as order_findings has them
  std::size_t downstream = 0;     // bad nodes that are in no finding
};

// `outcomes[i]` is node i's. Missing tensors are told once for the outermost module, kind or step
// that is missing altogether. `equal_bits[i]`: node i's values are the reference's bit for bit, so
// nothing bad that it depends on reaches what was computed from it; a module whose input is so is
// not reached by what that input was computed from either. Empty: none is.
Frontier find_frontier(const std::vector<Node>& nodes, const Dataflow& flow,
                       const std::vector<judge::Outcome>& outcomes,
                       const std::vector<bool>& equal_bits = {});

// Sorts findings step by step: parameters and inputs before the step, since another model or other
// data explain everything; then copies that disagree, since which of them the rest was computed
// from is not known; then all others. Within these the order stays. Source: lib/localize/README.md
void order_findings(const std::vector<Node>& nodes, const std::vector<judge::Outcome>& outcomes,
                    std::vector<Finding>& findings);

}  // namespace ttrace::localize
