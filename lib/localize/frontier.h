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

struct Frontier {
  // In the order of order_findings(). Only these members are set: `result` (the node that stands
  // for the finding), `members`, `one_sided_group` and `downstream` (without nodes that are in a
  // finding).
  std::vector<comparison::ComparedFinding> findings;
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
                    std::vector<comparison::ComparedFinding>& findings);

// Returns whether each record has the reference's values bit for bit. False for numbers that sum up
// many (the loss), which stand for all of them in the data flow, and for integers, which may be
// equal by chance.
std::vector<bool> equal_bits(const std::vector<comparison::TensorComparison>& results);

// A tensor is suspected of a bug of its own if its error is more than this many times that of
// everything that it was directly computed from, both in units of the allowed error. A carried
// error grows as noise grows, which `allowed` measures: six real single bugs, 213 to 225 downstream
// tensors each, reach 6.5.
inline constexpr double kMostCarried = 30;

// ‖C - R‖ / allowed of every node, finite. Nothing where the comparison with the reference does not
// say: tensors that are not compared, integers that differ, replays, replica conflicts, values that
// are not finite on one side.
using UsedShares = std::vector<std::optional<double>>;

}  // namespace ttrace::localize
