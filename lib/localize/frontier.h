// Finds the first divergences, and the bugs of their own among what follows from them. The rules
// and their evidence: lib/localize/README.md.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "judge/outcome.h"
#include "localize/dataflow.h"

namespace ttrace::localize {

// Returns for every node that is missing (or extra) the largest whole that is missing (extra) with
// it: "step 1", "micro-batch 2 (step 0)", "every grad_output of step 0", "layers.3" (a module with
// all that is below it), or its own name. Empty for nodes that both traces have. A dropped layer is
// one finding, not forty.
std::vector<std::string> one_sided_groups(const std::vector<FlowNode>& nodes,
                                          const std::vector<judge::Outcome>& outcomes);

struct Frontier {
  // Of a finding, `result` (the node that stands for it), `members`, `one_sided_group` and
  // `downstream` (without nodes that are in a finding) are set. In the order of order_findings.
  std::vector<comparison::Finding> findings;
  std::size_t downstream = 0;  // bad nodes that are in no finding
};

// Returns the first divergences: bad tensors that depend on no other bad tensor. There may be
// several, one per bug. Replicas that differ are explained only by replicas that differ, or by a
// tensor that is missing or incomparable: a wrong value is wrong on all replicas alike, so a lost
// reduction is found behind another bug too. Tensors missing together are one finding.
//
// `outcomes[i]` is node i's. `equal_bits[i]`: node i has the reference's values bit for bit, so
// nothing bad that it depends on reaches what was computed from it. A module with such an input is
// not reached by what that input was computed from either. Empty: no node has.
// `own[i]`: node i, if it is bad, is a finding whatever it depends on, and comes before those of
// the loss and of what follows it. Empty: no node is.
Frontier find_frontier(const std::vector<FlowNode>& nodes, const Dataflow& flow,
                       const std::vector<judge::Outcome>& outcomes,
                       const std::vector<bool>& equal_bits = {}, const std::vector<bool>& own = {});

// Sorts findings step by step: parameters and inputs before the step, since another model or other
// data explain everything; then replica conflicts, since it is not known from which replica the
// rest was computed; then all others; what is extra last. Within these the order stays.
void order_findings(const std::vector<FlowNode>& nodes, const std::vector<judge::Outcome>& outcomes,
                    std::vector<comparison::Finding>& findings);

// Returns whether each record has the reference's values bit for bit. False for numbers that sum up
// many (the loss), which stand for all of them in the data flow, and for integers, which may be
// equal by chance.
std::vector<bool> equal_bits(const std::vector<comparison::TensorComparison>& results);

// Sets `nearest` of the missing and the extra tensors: names of the other side's unmatched tensors
// of the same kind and shape, the most alike first.
void find_nearest_names(std::vector<comparison::TensorComparison>& results);

// A tensor is suspected of a bug of its own if its error is more than this many times that of
// everything that it was directly computed from, both in units of the allowed error. A carried
// error grows as noise grows, which `allowed` measures: six real single bugs, 213 to 225 downstream
// tensors each, reach 6.5.
inline constexpr double kMostCarried = 30;

// ‖C - R‖ / allowed of every node, finite. Nothing where the comparison with the reference does not
// say: tensors that are not compared, integers that differ, replays, replica conflicts, values that
// are not finite on one side.
using UsedShares = std::vector<std::optional<double>>;

// Returns second suspects: diverged nodes downstream of the frontier whose used share is more than
// kMostCarried times that of everything they directly depend on, in the order of the data flow. A
// dependency without a used share may explain anything, so what depends on it is no suspect; nor is
// what depends on nothing. A gradient that comes back through a module is also compared with that
// module's inputs and outputs. The loss is a mean, whose error says little: a gradient that follows
// from the loss alone is compared with what the loss was computed from, if its own value is among
// that, and is no suspect otherwise.
std::vector<comparison::Suspect> second_suspects(const std::vector<FlowNode>& nodes,
                                                 const Dataflow& flow,
                                                 const std::vector<judge::Outcome>& outcomes,
                                                 const UsedShares& used,
                                                 const std::vector<bool>& on_frontier);

// The same for a frontier of these records.
std::vector<comparison::Suspect> suspects_of(
    const std::vector<FlowNode>& nodes, const Dataflow& flow, const Frontier& frontier,
    const std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::localize
