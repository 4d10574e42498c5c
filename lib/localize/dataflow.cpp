#include "localize/dataflow.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "localize/dataflow_index.h"
#include "localize/dataflow_rules.h"
#include "localize/phase.h"

namespace ttrace::localize {
namespace {

using comparison::TensorComparison;
using trace::Kind;

constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();

// Returns the nodes in the order in which ties are resolved.
std::vector<std::size_t> in_order_of_ties(const std::vector<FlowNode>& nodes) {
  std::vector<std::size_t> sorted(nodes.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  const auto place = [&nodes](std::size_t i) {
    const trace::TensorKey& key = nodes[i].key;
    return std::tuple<std::uint64_t, Phase, std::uint64_t, const trace::TensorKey&>(
        key.step, phase_of(key), nodes[i].order.value_or(kLast), key);
  };
  std::sort(sorted.begin(), sorted.end(),
            [&place](std::size_t a, std::size_t b) { return place(a) < place(b); });
  return sorted;
}

// Kahn's algorithm, the smallest tie rank first. Where only cycles are left, the node of smallest
// rank goes next and its unmet dependencies are dropped.
void order_and_cut_cycles(const std::vector<FlowNode>& nodes, Dataflow& flow) {
  const std::vector<std::size_t> sorted = in_order_of_ties(nodes);
  std::vector<std::size_t> ranks(nodes.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) ranks[sorted[i]] = i;
  std::vector<std::vector<std::size_t>> dependants(nodes.size());
  std::vector<std::size_t> unmet(nodes.size());
  // Tie ranks of the nodes with nothing unmet, the smallest at the top.
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    unmet[i] = flow.depends_on[i].size();
    for (const std::size_t d : flow.depends_on[i]) dependants[d].push_back(i);
    if (unmet[i] == 0) ready.push(ranks[i]);
  }
  std::vector<bool> placed(nodes.size(), false);
  flow.topological_order.reserve(nodes.size());
  // Nodes of a smaller tie rank are placed, or ready.
  std::size_t first_waiting = 0;
  while (flow.topological_order.size() < nodes.size()) {
    std::size_t rank = 0;
    if (ready.empty()) {
      while (placed[sorted[first_waiting]]) ++first_waiting;
      rank = first_waiting;
    } else {
      rank = ready.top();
      ready.pop();
    }
    const std::size_t node = sorted[rank];
    auto& needs = flow.depends_on[node];
    if (unmet[node] > 0) {
      std::erase_if(needs, [&placed](std::size_t d) { return !placed[d]; });
      unmet[node] = 0;
    }
    placed[node] = true;
    flow.topological_order.push_back(node);
    for (const std::size_t dependant : dependants[node]) {
      if (!placed[dependant] && --unmet[dependant] == 0) ready.push(ranks[dependant]);
    }
  }
}

bool runs_in_order(Kind kind) {
  return kind == Kind::kInput || kind == Kind::kOutput || kind == Kind::kLoss ||
         kind == Kind::kGradOutput || kind == Kind::kGradInput;
}

// Tensors whose orders compare; without a micro-batch, those of all micro-batches.
using FlowPlace = std::tuple<std::uint64_t, std::string, std::optional<std::uint64_t>>;

}  // namespace

std::vector<bool> reached(const std::vector<std::vector<std::size_t>>& edges,
                          std::vector<std::size_t> from) {
  std::vector<bool> seen(edges.size(), false);
  for (const std::size_t node : from) seen[node] = true;
  while (!from.empty()) {
    const std::size_t node = from.back();
    from.pop_back();
    for (const std::size_t next : edges[node]) {
      if (!seen[next]) from.push_back(next);
      seen[next] = true;
    }
  }
  return seen;
}

std::string rank_group(const layout::View& view) {
  const trace::TensorEntry& entry = *layout::stored_in(view).front();
  trace::HeldAt held_at = entry.held_at;
  for (const auto& [axis, placement] : entry.placements) {
    if (const auto* only = std::get_if<trace::Only>(&placement)) held_at[axis] = {only->coordinate};
  }
  std::string text;
  for (const auto& [axis, coordinates] : held_at) {
    text += base::concat(axis, ":");
    for (const std::uint64_t coordinate : coordinates) text += base::concat(coordinate, ",");
  }
  return text.empty() ? "" : base::concat(entry.mesh, "/", text);
}

std::vector<FlowNode> nodes_of(const std::vector<TensorComparison>& results) {
  std::vector<FlowNode> nodes;
  nodes.reserve(results.size());
  std::map<std::string, base::SharedValue<std::string>> groups;
  for (const TensorComparison& result : results) {
    const layout::View& view = result.reference != nullptr ? *result.reference : *result.candidate;
    // Replicas that differ follow from gradients whose replicas do, whatever the replay says.
    const bool replayed = result.comparison && result.comparison->replay &&
                          result.outcome != judge::Outcome::kReplicaConflict;
    std::string group = rank_group(view);
    const auto& shared = groups.try_emplace(group, group).first->second;
    nodes.push_back({result.key, view.order, replayed, shared, result.reference == nullptr});
  }
  return nodes;
}

namespace {

// Sets the dependencies of all nodes, which may have cycles.
void find_dependencies(const std::vector<FlowNode>& nodes,
                       const std::vector<trace::Module>& modules, Dataflow& flow) {
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
    if (!chain.empty()) {
      const std::vector<std::size_t> earlier = std::move(chain[i]);  // freed as `needs` grow
      needs.insert(needs.end(), earlier.begin(), earlier.end());
    }
    std::sort(needs.begin(), needs.end());
    needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
    std::erase(needs, i);
  }
}

// Of optimizers that take turns in a step, some update parameters before later micro-batches run
// with them: what these compute follows from the main gradient and the updated value, and no
// gradient that comes later is in the main gradient.
void follow_updates_within_steps(const std::vector<FlowNode>& nodes, Dataflow& flow) {
  using Place = std::tuple<std::uint64_t, Kind, std::string_view>;
  std::map<Place, std::size_t> updates;
  std::map<std::uint64_t, std::uint64_t> first;  // step -> the order of its first main gradient
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const trace::TensorKey& key = nodes[i].key;
    if (key.kind != Kind::kMainGrad && key.kind != Kind::kParamAfterStep) continue;
    updates.emplace(Place{key.step, key.kind, key.name}, i);
    if (key.kind == Kind::kParamAfterStep || !nodes[i].order) continue;
    if (nodes[i].in_candidate_alone) continue;
    const auto known = first.emplace(key.step, *nodes[i].order).first;
    known->second = std::min(known->second, *nodes[i].order);
  }
  const auto is_before = [&nodes](std::size_t a, std::size_t b) {
    return nodes[a].order && nodes[b].order && *nodes[a].order < *nodes[b].order &&
           *nodes[a].rank_group == *nodes[b].rank_group &&
           nodes[a].in_candidate_alone == nodes[b].in_candidate_alone;
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const trace::TensorKey& key = nodes[i].key;
    const auto begun = first.find(key.step);
    if (begun == first.end() || !nodes[i].order || *nodes[i].order < begun->second) continue;
    std::vector<std::size_t>& needs = flow.depends_on[i];
    if (key.kind == Kind::kMainGrad) {
      std::erase_if(needs, [&](std::size_t d) {
        return nodes[d].key.kind == Kind::kParamGrad && is_before(i, d);
      });
    } else if (key.kind == Kind::kLoss ||
               (needs.empty() && (key.kind == Kind::kInput || key.kind == Kind::kGradOutput ||
                                  key.kind == Kind::kParamGrad))) {
      // Nobody knows what it was made from: the data flow is that of the first micro-batch.
      for (const auto& [place, d] : updates) {
        const auto& [step, kind, name] = place;
        if (step == key.step && kind == Kind::kMainGrad && is_before(d, i)) needs.push_back(d);
      }
      std::sort(needs.begin(), needs.end());
      needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
    } else if (key.kind == Kind::kOutput) {
      std::vector<std::size_t> updated;
      for (const std::size_t d : needs) {
        if (nodes[d].key.kind != Kind::kParam) continue;
        const auto gradient = updates.find({key.step, Kind::kMainGrad, nodes[d].key.name});
        if (gradient == updates.end() || !is_before(gradient->second, i)) continue;
        updated.push_back(gradient->second);
        const auto after = updates.find({key.step, Kind::kParamAfterStep, nodes[d].key.name});
        if (after != updates.end()) updated.push_back(after->second);
      }
      needs.insert(needs.end(), updated.begin(), updated.end());
      std::sort(needs.begin(), needs.end());
      needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
    }
  }
}

}  // namespace

Dataflow build_dataflow(const std::vector<FlowNode>& nodes,
                        const std::vector<trace::Module>& modules) {
  Dataflow flow;
  flow.from_modules = !modules.empty();
  find_dependencies(nodes, modules, flow);
  follow_updates_within_steps(nodes, flow);
  order_and_cut_cycles(nodes, flow);
  return flow;
}

namespace {

// Moves items[order[i]] to place i, for all i. Each item moves once: records are large.
template <typename Item>
void put_in_order(const std::vector<std::size_t>& order, std::vector<Item>& items) {
  std::vector<bool> done(order.size(), false);
  for (std::size_t first = 0; first < order.size(); ++first) {
    if (done[first] || order[first] == first) continue;
    Item held = std::move(items[first]);
    std::size_t to = first;
    for (; order[to] != first; to = order[to]) {
      items[to] = std::move(items[order[to]]);
      done[to] = true;
    }
    items[to] = std::move(held);
    done[to] = true;
  }
}

}  // namespace

void order_by_data_flow(std::vector<TensorComparison>& results, std::vector<FlowNode>& nodes,
                        Dataflow& flow) {
  const std::vector<std::size_t>& order = flow.topological_order;
  std::vector<std::size_t> position(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  for (std::vector<std::size_t>& depends_on : flow.depends_on) {
    for (std::size_t& node : depends_on) node = position[node];
  }
  put_in_order(order, results);
  put_in_order(order, nodes);
  put_in_order(order, flow.depends_on);
  std::iota(flow.topological_order.begin(), flow.topological_order.end(), std::size_t{0});
}

std::vector<std::vector<std::size_t>> execution_chain(const std::vector<FlowNode>& nodes) {
  std::map<std::pair<std::uint64_t, std::string>, std::vector<std::size_t>> steps;
  std::map<std::uint64_t, std::vector<std::size_t>> params;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const trace::TensorKey& key = nodes[i].key;
    if (runs_in_order(key.kind) || key.kind == Kind::kParamGrad) {
      steps[{key.step, *nodes[i].rank_group}].push_back(i);
    }
    if (key.kind == Kind::kParam) params[key.step].push_back(i);
  }
  std::vector<std::vector<std::size_t>> extra(nodes.size());
  for (auto& [place_of, members] : steps) {
    const auto place = [&nodes](std::size_t i) {
      const trace::TensorKey& key = nodes[i].key;
      return std::tuple<std::uint64_t, Phase, const trace::TensorKey&>(
          nodes[i].order.value_or(kLast), phase_of(key), key);
    };
    std::sort(members.begin(), members.end(),
              [&place](std::size_t a, std::size_t b) { return place(a) < place(b); });
    std::vector<std::size_t> before = params[place_of.first];
    for (const std::size_t i : members) {
      extra[i] = before;
      // A parameter's gradient depends on the chain, and nothing in the chain on it.
      if (runs_in_order(nodes[i].key.kind)) before = {i};
    }
  }
  return extra;
}

std::vector<std::optional<std::size_t>> last_before_scalars(const std::vector<FlowNode>& nodes) {
  // Few runs have such scalars, and the maps of a million activations take a while.
  const bool any = std::any_of(nodes.begin(), nodes.end(), [](const FlowNode& node) {
    return node.order && node.key.kind == Kind::kScalar;
  });
  if (!any) return std::vector<std::optional<std::size_t>>(nodes.size());
  // By order; of equal ones the greatest key, so that the order of `nodes` does not matter.
  std::map<FlowPlace, std::map<std::uint64_t, std::size_t>> ordered;
  const auto put = [&](const FlowPlace& place, std::size_t i) {
    const auto [at, fresh] = ordered[place].emplace(*nodes[i].order, i);
    if (!fresh && nodes[at->second].key < nodes[i].key) at->second = i;
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const trace::TensorKey& key = nodes[i].key;
    if (!nodes[i].order || !runs_in_order(key.kind)) continue;
    put({key.step, *nodes[i].rank_group, key.microbatch}, i);
    if (key.microbatch) put({key.step, *nodes[i].rank_group, std::nullopt}, i);
  }
  std::vector<std::optional<std::size_t>> before(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const trace::TensorKey& key = nodes[i].key;
    if (!nodes[i].order || key.kind != Kind::kScalar) continue;
    const auto found = ordered.find({key.step, *nodes[i].rank_group, key.microbatch});
    if (found == ordered.end()) continue;
    auto at = found->second.lower_bound(*nodes[i].order);
    if (at != found->second.begin()) before[i] = std::prev(at)->second;
  }
  return before;
}

}  // namespace ttrace::localize
