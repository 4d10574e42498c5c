#include "verdict/frontier.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/concat.h"
#include "verdict/finding_order.h"
#include "verdict/missing_groups.h"

namespace ttrace::verdict {
namespace {

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
      if (tainted[d] || is_bad(outcomes[d])) tainted[node] = true;
    }
  }

  const std::vector<std::string> group_of = missing_groups(nodes, outcomes);
  std::map<std::string, std::vector<std::size_t>> groups;
  for (const std::size_t node : flow.topological_order) {
    if (outcomes[node] == Outcome::kMissing) groups[group_of[node]].push_back(node);
  }

  Frontier frontier;
  std::set<std::string> told;
  std::vector<bool> in_finding(nodes.size(), false);
  for (const std::size_t node : flow.topological_order) {
    if (!is_bad(outcomes[node]) || tainted[node]) continue;
    Finding finding;
    finding.first = node;
    finding.members = {node};
    if (outcomes[node] == Outcome::kMissing) {
      if (!told.insert(group_of[node]).second) continue;
      finding.members = groups[group_of[node]];
      finding.missing_group = group_of[node];
    }
    for (const std::size_t member : finding.members) in_finding[member] = true;
    finding.downstream = bad_downstream(dependants, outcomes, finding.members);
    frontier.findings.push_back(std::move(finding));
  }
  order_findings(nodes, outcomes, frontier.findings);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (is_bad(outcomes[i]) && !in_finding[i]) ++frontier.downstream;
  }
  return frontier;
}

}  // namespace ttrace::verdict
