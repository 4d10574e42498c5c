#include "localize/nodes.h"

#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/text.h"

namespace ttrace::localize {

using comparison::TensorComparison;
using judge::Outcome;

std::string rank_group(const layout::View& view) {
  const trace::TensorEntry& entry = *layout::stored_in(view).front();
  std::map<std::string, std::vector<std::uint64_t>> held_at = entry.held_at;
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

std::vector<Node> nodes_of(const std::vector<TensorComparison>& results) {
  std::vector<Node> nodes;
  nodes.reserve(results.size());
  for (const TensorComparison& result : results) {
    const layout::View& view = result.reference != nullptr ? *result.reference : *result.candidate;
    // Replicas that differ follow from gradients whose replicas do, whatever the replay says.
    const bool replayed = result.comparison && result.comparison->replay &&
                          result.outcome != Outcome::kReplicaConflict;
    nodes.push_back({result.key, view.order, replayed, rank_group(view)});
  }
  return nodes;
}

void order_by_data_flow(std::vector<TensorComparison>& results, std::vector<Node>& nodes,
                        Dataflow& flow) {
  const std::vector<std::size_t>& order = flow.topological_order;
  std::vector<std::size_t> position(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  for (std::vector<std::size_t>& depends_on : flow.depends_on) {
    for (std::size_t& node : depends_on) node = position[node];
  }
  std::vector<std::size_t> goes_to = position;
  for (std::size_t i = 0; i < order.size(); ++i) {
    while (goes_to[i] != i) {
      const std::size_t to = goes_to[i];
      std::swap(results[i], results[to]);
      std::swap(nodes[i], nodes[to]);
      std::swap(flow.depends_on[i], flow.depends_on[to]);
      std::swap(goes_to[i], goes_to[to]);
    }
  }
  std::iota(flow.topological_order.begin(), flow.topological_order.end(), std::size_t{0});
}

std::vector<bool> equal_bits(const std::vector<TensorComparison>& results) {
  std::vector<bool> equal;
  equal.reserve(results.size());
  for (const TensorComparison& result : results) {
    const bool sums_up =
        result.key.kind == trace::Kind::kLoss || result.key.kind == trace::Kind::kScalar;
    equal.push_back(result.outcome == Outcome::kMatch && result.comparison && !result.exact &&
                    !result.comparison->replay && !sums_up && result.tokens_left_out == 0 &&
                    !result.comparison->measurement.replicas_differ &&
                    result.comparison->measurement.total.unequal == 0);
  }
  return equal;
}

UsedShares used_shares(const std::vector<TensorComparison>& results) {
  UsedShares used(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const TensorComparison& result = results[i];
    const bool judged = result.outcome == Outcome::kMatch || result.outcome == Outcome::kDiverged ||
                        result.outcome == Outcome::kBelowNoiseFloor;
    if (!judged || !result.comparison || result.comparison->replay) continue;
    if (result.comparison->measurement.total.nonfinite_different > 0) continue;
    if (result.exact) {
      if (result.outcome == Outcome::kMatch) used[i] = 0;
      continue;
    }
    const double share = comparison::used_share(*result.comparison);
    if (std::isfinite(share)) used[i] = share;
  }
  return used;
}

std::vector<comparison::Suspect> suspects_of(const std::vector<Node>& nodes, const Dataflow& flow,
                                             const Frontier& frontier,
                                             const std::vector<TensorComparison>& results) {
  std::vector<bool> on_frontier(results.size(), false);
  for (const Finding& finding : frontier.findings) {
    for (const std::size_t member : finding.members) on_frontier[member] = true;
  }
  std::vector<Outcome> outcomes;
  for (const TensorComparison& result : results) outcomes.push_back(result.outcome);
  std::vector<comparison::Suspect> suspects;
  for (const SecondSuspect& one :
       second_suspects(nodes, flow, outcomes, used_shares(results), on_frontier)) {
    suspects.push_back({one.node, one.used, one.used_before, one.largest});
  }
  return suspects;
}

}  // namespace ttrace::localize
