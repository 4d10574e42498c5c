#include "localize/dataflow.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "localize/dataflow_rules.h"
#include "localize/phase.h"

namespace ttrace::localize {
namespace {

// Position of every node in the order of ties.
std::vector<std::size_t> tie_ranks(const std::vector<Node>& nodes) {
  std::vector<std::size_t> sorted(nodes.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i] = i;
  const auto place = [&nodes](std::size_t i) {
    return std::tuple(nodes[i].key.step, phase_of(nodes[i].key),
                      nodes[i].order.value_or(std::numeric_limits<std::uint64_t>::max()),
                      nodes[i].key);
  };
  std::sort(sorted.begin(), sorted.end(),
            [&place](std::size_t a, std::size_t b) { return place(a) < place(b); });
  std::vector<std::size_t> ranks(nodes.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) ranks[sorted[i]] = i;
  return ranks;
}

// Kahn's algorithm, the smallest tie rank first. Where only cycles are left, the node of smallest
// rank goes next and its unmet dependencies are dropped.
void order_and_cut_cycles(const std::vector<Node>& nodes, Dataflow& flow) {
  const std::vector<std::size_t> ranks = tie_ranks(nodes);
  std::vector<std::vector<std::size_t>> dependants(nodes.size());
  std::vector<std::size_t> unmet(nodes.size());
  std::set<std::pair<std::size_t, std::size_t>> ready;  // (tie rank, node)
  std::set<std::pair<std::size_t, std::size_t>> waiting;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    unmet[i] = flow.depends_on[i].size();
    for (const std::size_t d : flow.depends_on[i]) dependants[d].push_back(i);
    (unmet[i] == 0 ? ready : waiting).emplace(ranks[i], i);
  }
  std::vector<bool> placed(nodes.size(), false);
  while (!ready.empty() || !waiting.empty()) {
    auto& from = ready.empty() ? waiting : ready;
    const std::size_t node = from.begin()->second;
    from.erase(from.begin());
    auto& needs = flow.depends_on[node];
    if (unmet[node] > 0) {
      needs.erase(std::remove_if(needs.begin(), needs.end(),
                                 [&placed](std::size_t d) { return !placed[d]; }),
                  needs.end());
      unmet[node] = 0;
    }
    placed[node] = true;
    flow.topological_order.push_back(node);
    for (const std::size_t dependant : dependants[node]) {
      if (placed[dependant] || --unmet[dependant] > 0) continue;
      waiting.erase({ranks[dependant], dependant});
      ready.emplace(ranks[dependant], dependant);
    }
  }
}

}  // namespace

Dataflow build_dataflow(const std::vector<Node>& nodes, const std::vector<trace::Module>& modules) {
  Dataflow flow;
  flow.from_modules = !modules.empty();
  flow.depends_on.resize(nodes.size());
  const NodeIndex index(nodes);
  const ModuleGraph graph(modules);
  std::vector<std::vector<std::size_t>> chain;
  if (!flow.from_modules) chain = execution_chain(nodes);
  const std::vector<std::optional<std::size_t>> before = last_before_scalars(nodes);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::vector<std::size_t>& needs = flow.depends_on[i];
    needs = dependencies(index, graph, i);
    if (before[i]) needs.push_back(*before[i]);
    if (!chain.empty()) needs.insert(needs.end(), chain[i].begin(), chain[i].end());
    std::sort(needs.begin(), needs.end());
    needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
    needs.erase(std::remove(needs.begin(), needs.end(), i), needs.end());
  }
  order_and_cut_cycles(nodes, flow);
  return flow;
}

namespace {

using trace::Kind;

bool runs_in_order(Kind kind) {
  return kind == Kind::kInput || kind == Kind::kOutput || kind == Kind::kLoss ||
         kind == Kind::kGradOutput || kind == Kind::kGradInput;
}

// Where the order of execution means something; without a micro-batch, of all of them.
using Place = std::tuple<std::uint64_t, std::string, std::optional<std::uint64_t>>;

}  // namespace

std::vector<std::optional<std::size_t>> last_before_scalars(const std::vector<Node>& nodes) {
  // By order; of equal ones the greatest key, so that the order of `nodes` does not matter.
  std::map<Place, std::map<std::uint64_t, std::size_t>> ordered;
  const auto put = [&](const Place& place, std::size_t i) {
    const auto [at, fresh] = ordered[place].emplace(*nodes[i].order, i);
    if (!fresh && nodes[at->second].key < nodes[i].key) at->second = i;
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const trace::TensorKey& key = nodes[i].key;
    if (!nodes[i].order || !runs_in_order(key.kind)) continue;
    put({key.step, nodes[i].holders, key.microbatch}, i);
    if (key.microbatch) put({key.step, nodes[i].holders, std::nullopt}, i);
  }
  std::vector<std::optional<std::size_t>> before(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const trace::TensorKey& key = nodes[i].key;
    if (!nodes[i].order || key.kind != Kind::kScalar) continue;
    const auto found = ordered.find({key.step, nodes[i].holders, key.microbatch});
    if (found == ordered.end()) continue;
    auto at = found->second.lower_bound(*nodes[i].order);
    if (at != found->second.begin()) before[i] = std::prev(at)->second;
  }
  return before;
}

}  // namespace ttrace::localize
