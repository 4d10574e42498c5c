#include "verdict/frontier.h"

#include <algorithm>
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

}  // namespace

Frontier find_frontier(const std::vector<Node>& nodes, const Dataflow& flow,
                       const std::vector<Outcome>& outcomes) {
  std::vector<std::vector<std::size_t>> dependants(nodes.size());
  std::vector<bool> tainted(nodes.size(), false);  // something it depends on is bad
  for (const std::size_t node : flow.topological_order) {
    for (const std::size_t d : flow.depends_on[node]) {
      dependants[d].push_back(node);
      if (tainted[d] || spreads(outcomes[d])) tainted[node] = true;
    }
  }

  const std::vector<std::string> group_of = one_sided_groups(nodes, outcomes);
  using Group = std::pair<Outcome, std::string>;
  std::map<Group, std::vector<std::size_t>> groups;
  for (const std::size_t node : flow.topological_order) {
    if (is_one_sided(outcomes[node])) groups[{outcomes[node], group_of[node]}].push_back(node);
  }

  Frontier frontier;
  std::set<Group> told;
  std::vector<bool> in_finding(nodes.size(), false);
  for (const std::size_t node : flow.topological_order) {
    if (!is_bad(outcomes[node]) || tainted[node]) continue;
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
  order_findings(nodes, outcomes, frontier.findings);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (is_bad(outcomes[i]) && !in_finding[i]) ++frontier.downstream;
  }
  return frontier;
}

}  // namespace ttrace::verdict
