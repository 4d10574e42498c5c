#include "verdict/frontier.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/concat.h"
#include "verdict/finding_order.h"
#include "verdict/one_sided_groups.h"

namespace ttrace::verdict {
namespace {

// Whether what is computed from such a tensor may be bad because of it. What the candidate alone
// recorded says nothing about what follows.
bool spreads(Outcome outcome) { return is_bad(outcome) && outcome != Outcome::kExtra; }

std::vector<std::size_t> bad_downstream(const std::vector<std::vector<std::size_t>>& dependants,
                                        const std::vector<Outcome>& outcomes,
                                        const std::vector<std::size_t>& members) {
  std::set<std::size_t> seen(members.begin(), members.end());
  std::vector<std::size_t> pending = members;
  std::vector<std::size_t> found;
  while (!pending.empty()) {
    const std::size_t node = pending.back();
    pending.pop_back();
    for (const std::size_t next : dependants[node]) {
      if (!seen.insert(next).second) continue;
      pending.push_back(next);
      if (is_bad(outcomes[next])) found.push_back(next);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// What node depends on, without what reaches it only through inputs with equal bits: a plan may
// have overwritten them, and data flow tells of the values before.
std::vector<std::size_t> open_dependencies(const std::vector<Node>& nodes, const Dataflow& flow,
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

Frontier find_frontier(const std::vector<Node>& nodes, const Dataflow& flow,
                       const std::vector<Outcome>& outcomes, const std::vector<bool>& equal_bits) {
  std::vector<std::vector<std::size_t>> dependants(nodes.size());
  std::vector<bool> tainted(nodes.size(), false);  // something it depends on is bad
  // Something it depends on may make its copies differ: wrong values alone are the same on all
  // replicas.
  std::vector<bool> may_conflict(nodes.size(), false);
  for (const std::size_t node : flow.topological_order) {
    for (const std::size_t d : open_dependencies(nodes, flow, equal_bits, node)) {
      dependants[d].push_back(node);
      if (tainted[d] || spreads(outcomes[d])) tainted[node] = true;
      if (may_conflict[d] || (spreads(outcomes[d]) && outcomes[d] != Outcome::kDiverged)) {
        may_conflict[node] = true;
      }
    }
  }

  const std::vector<std::string> group_of = one_sided_groups(nodes, outcomes);
  using Group = std::pair<Outcome, std::string>;
  std::map<Group, std::vector<std::size_t>> groups;
  for (const std::size_t node : flow.topological_order) {
    if (is_one_sided(outcomes[node])) groups[{outcomes[node], group_of[node]}].push_back(node);
  }

  const auto is_explained = [&](std::size_t node) {
    return outcomes[node] == Outcome::kReplicaConflict ? may_conflict[node] : tainted[node];
  };
  Frontier frontier;
  std::set<Group> told;
  std::vector<bool> in_finding(nodes.size(), false);
  for (const std::size_t node : flow.topological_order) {
    if (!is_bad(outcomes[node]) || is_explained(node)) continue;
    Finding finding;
    finding.first = node;
    finding.members = {node};
    if (is_one_sided(outcomes[node])) {
      const Group group{outcomes[node], group_of[node]};
      if (!told.insert(group).second) continue;
      finding.members = groups[group];
      finding.one_sided_group = group.second;
    }
    for (const std::size_t member : finding.members) in_finding[member] = true;
    if (spreads(outcomes[node])) {
      finding.downstream = bad_downstream(dependants, outcomes, finding.members);
    }
    frontier.findings.push_back(std::move(finding));
  }
  for (Finding& finding : frontier.findings) {
    std::erase_if(finding.downstream, [&](std::size_t node) { return in_finding[node]; });
  }
  order_findings(nodes, outcomes, frontier.findings);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (is_bad(outcomes[i]) && !in_finding[i]) ++frontier.downstream;
  }
  return frontier;
}

}  // namespace ttrace::verdict
