#include "localize/frontier.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "localize/phase.h"

namespace ttrace::localize {
namespace {

// Tensors of one trace below a name, and how many of them the other lacks.
struct Tally {
  std::size_t all = 0;
  std::size_t lacking = 0;

  void add(bool is_lacking) {
    ++all;
    lacking += is_lacking ? 1 : 0;
  }
  bool whole() const { return all == lacking; }
};

// Calls visit("a"), visit("a.b"), visit("a.b.c") for "a.b.c[1]".
template <typename Visit>
void for_each_prefix(std::string_view name, Visit visit) {
  name = trace::module_of_value(name);
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos;
       dot = name.find('.', dot + 1)) {
    visit(name.substr(0, dot));
  }
  visit(name);
}

// Fills in the groups of nodes with `outcome`, in the trace that has them.
void add_groups(const std::vector<Node>& nodes, const std::vector<judge::Outcome>& outcomes,
                judge::Outcome outcome, std::vector<std::string>& groups) {
  std::map<std::uint64_t, Tally> steps;
  std::map<std::pair<std::uint64_t, trace::Kind>, Tally> kinds;
  std::map<std::pair<std::uint64_t, std::string>, Tally, std::less<>> modules;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool lacking = outcomes[i] == outcome;
    if (judge::is_one_sided(outcomes[i]) && !lacking) continue;  // of the other trace
    const trace::TensorKey& key = nodes[i].key;
    steps[key.step].add(lacking);
    kinds[{key.step, key.kind}].add(lacking);
    for_each_prefix(key.name, [&](std::string_view prefix) {
      modules[{key.step, std::string(prefix)}].add(lacking);
    });
  }

  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (outcomes[i] != outcome) continue;
    const trace::TensorKey& key = nodes[i].key;
    const Tally& kind = kinds[{key.step, key.kind}];
    if (steps[key.step].whole()) {
      groups[i] = base::concat("step ", key.step);
    } else if (kind.whole() && kind.all > 1) {
      groups[i] = base::concat("every ", kind_name(key.kind), " of step ", key.step);
    } else {
      groups[i] = to_string(key);
      bool found = false;
      for_each_prefix(key.name, [&](std::string_view prefix) {
        const auto tally = modules.find(std::pair(key.step, std::string(prefix)));
        if (found || !tally->second.whole()) return;
        found = true;
        groups[i] = base::concat(prefix, " (step ", key.step, ")");
      });
    }
  }
}

}  // namespace

std::vector<std::string> one_sided_groups(const std::vector<Node>& nodes,
                                          const std::vector<judge::Outcome>& outcomes) {
  std::vector<std::string> groups(nodes.size());
  for (const judge::Outcome outcome : {judge::Outcome::kMissing, judge::Outcome::kExtra}) {
    add_groups(nodes, outcomes, outcome, groups);
  }
  return groups;
}

namespace {

// Whether what is computed from such a tensor may be bad because of it. What the candidate alone
// recorded says nothing about what follows.
bool spreads(judge::Outcome outcome) {
  return judge::is_bad(outcome) && outcome != judge::Outcome::kExtra;
}

std::vector<std::size_t> bad_downstream(const std::vector<std::vector<std::size_t>>& dependants,
                                        const std::vector<judge::Outcome>& outcomes,
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
      if (judge::is_bad(outcomes[next])) found.push_back(next);
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
                       const std::vector<judge::Outcome>& outcomes,
                       const std::vector<bool>& equal_bits) {
  std::vector<std::vector<std::size_t>> dependants(nodes.size());
  std::vector<bool> tainted(nodes.size(), false);  // something it depends on is bad
  // Something it depends on may make its copies differ: wrong values alone are the same on all
  // replicas.
  std::vector<bool> may_conflict(nodes.size(), false);
  for (const std::size_t node : flow.topological_order) {
    for (const std::size_t d : open_dependencies(nodes, flow, equal_bits, node)) {
      dependants[d].push_back(node);
      if (tainted[d] || spreads(outcomes[d])) tainted[node] = true;
      if (may_conflict[d] || (spreads(outcomes[d]) && outcomes[d] != judge::Outcome::kDiverged)) {
        may_conflict[node] = true;
      }
    }
  }

  const std::vector<std::string> group_of = one_sided_groups(nodes, outcomes);
  using Group = std::pair<judge::Outcome, std::string>;
  std::map<Group, std::vector<std::size_t>> groups;
  for (const std::size_t node : flow.topological_order) {
    if (judge::is_one_sided(outcomes[node]))
      groups[{outcomes[node], group_of[node]}].push_back(node);
  }

  const auto is_explained = [&](std::size_t node) {
    return outcomes[node] == judge::Outcome::kReplicaConflict ? may_conflict[node] : tainted[node];
  };
  Frontier frontier;
  std::set<Group> told;
  std::vector<bool> in_finding(nodes.size(), false);
  for (const std::size_t node : flow.topological_order) {
    if (!judge::is_bad(outcomes[node]) || is_explained(node)) continue;
    Finding finding;
    finding.first = node;
    finding.members = {node};
    if (judge::is_one_sided(outcomes[node])) {
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
    if (judge::is_bad(outcomes[i]) && !in_finding[i]) ++frontier.downstream;
  }
  return frontier;
}

void order_findings(const std::vector<Node>& nodes, const std::vector<judge::Outcome>& outcomes,
                    std::vector<Finding>& findings) {
  const auto place = [&](const Finding& finding) {
    const trace::TensorKey& key = nodes[finding.first].key;
    const Phase phase = phase_of(key);
    int turn = 2;
    if (outcomes[finding.first] == judge::Outcome::kExtra) {
      turn = 3;
    } else if (phase == Phase::kParameter || phase == Phase::kInput) {
      turn = 0;
    } else if (outcomes[finding.first] == judge::Outcome::kReplicaConflict) {
      turn = 1;
    }
    return std::pair(key.step, turn);
  };
  std::stable_sort(findings.begin(), findings.end(),
                   [&place](const Finding& a, const Finding& b) { return place(a) < place(b); });
}

}  // namespace ttrace::localize
