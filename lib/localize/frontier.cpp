#include "localize/frontier.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "localize/one_sided.h"
#include "localize/phase.h"

namespace ttrace::localize {
namespace {

using judge::Outcome;

// Whether a tensor with this outcome may make bad what is computed from it. A tensor that only the
// candidate recorded says nothing about what follows.
bool spreads(Outcome outcome) { return judge::is_bad(outcome) && outcome != Outcome::kExtra; }

std::vector<std::size_t> bad_downstream(const std::vector<std::vector<std::size_t>>& dependants,
                                        const std::vector<Outcome>& outcomes,
                                        const std::vector<std::size_t>& members) {
  const bool stops_at_match = outcomes[members.front()] == Outcome::kIncomparable;
  std::set<std::size_t> seen(members.begin(), members.end());
  std::vector<std::size_t> pending = members;
  std::vector<std::size_t> found;
  while (!pending.empty()) {
    const std::size_t node = pending.back();
    pending.pop_back();
    for (const std::size_t next : dependants[node]) {
      if (!seen.insert(next).second) continue;
      if (stops_at_match && outcomes[next] == Outcome::kMatch) continue;
      pending.push_back(next);
      if (judge::is_bad(outcomes[next])) found.push_back(next);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Returns what `node` depends on, without what reaches it only through inputs with equal bits: a
// plan may have overwritten these inputs, and the data flow knows the values before.
std::vector<std::size_t> open_dependencies(const std::vector<FlowNode>& nodes, const Dataflow& flow,
                                           const std::vector<bool>& equal_bits, std::size_t node) {
  const std::vector<std::size_t>& all = flow.depends_on[node];
  if (equal_bits.empty()) return all;
  std::set<std::size_t> closed;
  const bool is_output = nodes[node].key.kind == trace::Kind::kOutput;
  for (const std::size_t d : all) {
    if (!equal_bits[d]) continue;
    closed.insert(d);
    const bool is_own_input =
        is_output && nodes[d].key.kind == trace::Kind::kInput &&
        trace::module_of_value(nodes[d].key.name) == trace::module_of_value(nodes[node].key.name);
    if (is_own_input) closed.insert(flow.depends_on[d].begin(), flow.depends_on[d].end());
  }
  std::vector<std::size_t> open;
  std::copy_if(all.begin(), all.end(), std::back_inserter(open),
               [&closed](std::size_t d) { return !closed.contains(d); });
  return open;
}

}  // namespace

Frontier find_frontier(const std::vector<FlowNode>& nodes, const Dataflow& flow,
                       const std::vector<Outcome>& outcomes, const std::vector<bool>& equal_bits,
                       const std::vector<bool>& own) {
  std::vector<std::vector<std::size_t>> dependants(nodes.size());
  std::vector<bool> downstream(nodes.size(), false);  // of something bad
  // Downstream of what cannot be compared, up to what agrees again: only the description of that
  // may be wrong, and nothing behind what agrees comes from it.
  std::vector<bool> behind(nodes.size(), false);
  // Downstream of something that may make replicas differ: a wrong value is the same on all.
  std::vector<bool> may_conflict(nodes.size(), false);
  for (const std::size_t node : flow.topological_order) {
    for (const std::size_t d : open_dependencies(nodes, flow, equal_bits, node)) {
      dependants[d].push_back(node);
      const bool incomparable = outcomes[d] == Outcome::kIncomparable;
      if (downstream[d] || (spreads(outcomes[d]) && !incomparable)) downstream[node] = true;
      if (incomparable || (behind[d] && outcomes[d] != Outcome::kMatch)) behind[node] = true;
      if (may_conflict[d] || (spreads(outcomes[d]) && outcomes[d] != Outcome::kDiverged)) {
        may_conflict[node] = true;
      }
    }
  }

  std::vector<std::string> group_of;  // of all nodes, if any of them is one-sided
  if (std::any_of(outcomes.begin(), outcomes.end(), judge::is_one_sided)) {
    group_of = one_sided_groups(nodes, outcomes);
  }
  using Group = std::pair<Outcome, std::string>;
  std::map<Group, std::vector<std::size_t>> groups;
  for (const std::size_t node : flow.topological_order) {
    if (!judge::is_one_sided(outcomes[node])) continue;
    groups[{outcomes[node], group_of[node]}].push_back(node);
  }

  const auto is_own = [&own](std::size_t node) -> bool { return !own.empty() && own[node]; };
  const auto is_explained = [&](std::size_t node) -> bool {
    if (is_own(node)) return false;
    if (outcomes[node] == Outcome::kReplicaConflict) return may_conflict[node];
    return downstream[node] || behind[node];
  };
  Frontier frontier;
  std::set<Group> reported;
  std::vector<bool> in_finding(nodes.size(), false);
  for (const std::size_t node : flow.topological_order) {
    if (!judge::is_bad(outcomes[node]) || is_explained(node)) continue;
    comparison::ComparedFinding finding;
    finding.result = node;
    finding.members = {node};
    if (judge::is_one_sided(outcomes[node])) {
      const Group group{outcomes[node], group_of[node]};
      if (!reported.insert(group).second) continue;
      finding.members = groups[group];
      finding.one_sided_group = group.second;
    }
    for (const std::size_t member : finding.members) in_finding[member] = true;
    if (spreads(outcomes[node])) {
      finding.downstream = bad_downstream(dependants, outcomes, finding.members);
    }
    frontier.findings.push_back(std::move(finding));
  }
  for (comparison::ComparedFinding& finding : frontier.findings) {
    std::erase_if(finding.downstream, [&](std::size_t node) { return in_finding[node]; });
  }
  order_findings(nodes, outcomes, frontier.findings);
  const auto after_forward = std::find_if(
      frontier.findings.begin(), frontier.findings.end(),
      [&](const auto& finding) { return phase_of(nodes[finding.result].key) >= Phase::kLoss; });
  std::stable_partition(after_forward, frontier.findings.end(),
                        [&](const auto& finding) { return is_own(finding.result); });
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (judge::is_bad(outcomes[i]) && !in_finding[i]) ++frontier.downstream;
  }
  return frontier;
}

void order_findings(const std::vector<FlowNode>& nodes, const std::vector<Outcome>& outcomes,
                    std::vector<comparison::ComparedFinding>& findings) {
  const auto place = [&](const comparison::ComparedFinding& finding) {
    const trace::TensorKey& key = nodes[finding.result].key;
    const Phase phase = phase_of(key);
    int turn = 2;
    if (outcomes[finding.result] == Outcome::kExtra) {
      turn = 3;
    } else if (phase == Phase::kParameter || phase == Phase::kInput) {
      turn = 0;
    } else if (outcomes[finding.result] == Outcome::kReplicaConflict) {
      turn = 1;
    }
    return std::pair(key.step, turn);
  };
  std::stable_sort(findings.begin(), findings.end(),
                   [&place](const auto& a, const auto& b) { return place(a) < place(b); });
}

std::vector<bool> equal_bits(const std::vector<comparison::TensorComparison>& results) {
  std::vector<bool> equal;
  equal.reserve(results.size());
  for (const comparison::TensorComparison& result : results) {
    const bool sums_up =
        result.key.kind == trace::Kind::kLoss || result.key.kind == trace::Kind::kScalar;
    equal.push_back(result.outcome == Outcome::kMatch && result.comparison && !result.exact &&
                    !result.comparison->replay && !sums_up && result.tokens_left_out == 0 &&
                    !result.comparison->measurement.replicas_differ &&
                    result.comparison->measurement.total.unequal == 0);
  }
  return equal;
}

}  // namespace ttrace::localize
