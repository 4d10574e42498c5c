#include "localize/second_suspects.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "localize/dataflow_index.h"
#include "localize/frontier.h"

namespace ttrace::localize {
namespace {

using answer::Suspect;
using comparison::TensorComparison;
using judge::Outcome;
using trace::Kind;

// Finds the nodes that the error of a node may have been carried from; none if the data flow does
// not say.
class Sources {
 public:
  Sources(const std::vector<FlowNode>& nodes, const Dataflow& flow)
      : nodes_(nodes), flow_(flow), index_(nodes) {}

  std::vector<std::size_t> of(std::size_t node) const {
    std::vector<std::size_t> found = flow_.depends_on[node];
    const bool by_loss_alone = std::all_of(found.begin(), found.end(), [this](std::size_t d) {
      return nodes_[d].key.kind == Kind::kLoss;
    });
    if (by_loss_alone) return behind_loss(node);
    if (nodes_[node].key.kind == Kind::kGradOutput) add_forward_values(node, found);
    return found;
  }

 private:
  std::vector<std::size_t> behind_loss(std::size_t node) const {
    const trace::TensorKey& key = nodes_[node].key;
    const std::vector<std::size_t> own = index_.find(key, Kind::kOutput, key.name);
    std::vector<std::size_t> found = flow_.depends_on[node];
    bool own_is_behind = false;
    for (const std::size_t loss : flow_.depends_on[node]) {
      const std::vector<std::size_t>& made_of = flow_.depends_on[loss];
      found.insert(found.end(), made_of.begin(), made_of.end());
      own_is_behind = own_is_behind || std::find_first_of(made_of.begin(), made_of.end(),
                                                          own.begin(), own.end()) != made_of.end();
    }
    return own_is_behind ? found : std::vector<std::size_t>();
  }

  // A container's own operations use its inputs in backward as well: a mixture of experts returns
  // gradients in the order of its tokens, and its parts get them in the order of the experts.
  void add_forward_values(std::size_t node, std::vector<std::size_t>& found) const {
    for (const std::size_t d : flow_.depends_on[node]) {
      if (nodes_[d].key.kind != Kind::kGradOutput) continue;
      const std::string_view module = trace::module_of_value(nodes_[d].key.name);
      for (const Kind kind : {Kind::kInput, Kind::kOutput}) {
        const auto values = index_.find_values(nodes_[node].key, kind, module);
        found.insert(found.end(), values.begin(), values.end());
      }
    }
  }

  const std::vector<FlowNode>& nodes_;
  const Dataflow& flow_;
  NodeIndex index_;
};

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

}  // namespace

std::vector<Suspect> second_suspects(const std::vector<FlowNode>& nodes, const Dataflow& flow,
                                     const std::vector<Outcome>& outcomes, const UsedShares& used,
                                     const std::vector<bool>& on_frontier) {
  std::vector<Suspect> suspects;
  const Sources sources(nodes, flow);
  for (const std::size_t node : flow.topological_order) {
    if (outcomes[node] != Outcome::kDiverged || on_frontier[node] || !used[node]) continue;
    Suspect suspect{nodes[node].key, *used[node], 1, std::nullopt};
    const std::vector<std::size_t> from = sources.of(node);
    bool all_known = !from.empty();
    double most = 0;
    for (const std::size_t d : from) {
      all_known = all_known && used[d];
      if (!used[d] || !(*used[d] > most)) continue;
      most = *used[d];
      suspect.largest = nodes[d].key;
    }
    if (most > 1) suspect.used_before = most;
    if (all_known && suspect.used > kMostCarried * suspect.used_before) {
      suspects.push_back(std::move(suspect));
    }
  }
  return suspects;
}

std::vector<Suspect> suspects_of(const std::vector<FlowNode>& nodes, const Dataflow& flow,
                                 const Frontier& frontier,
                                 const std::vector<TensorComparison>& results) {
  std::vector<bool> on_frontier(results.size(), false);
  for (const comparison::ComparedFinding& finding : frontier.findings) {
    for (const std::size_t member : finding.members) on_frontier[member] = true;
  }
  std::vector<Outcome> outcomes;
  for (const TensorComparison& result : results) outcomes.push_back(result.outcome);
  return second_suspects(nodes, flow, outcomes, used_shares(results), on_frontier);
}

}  // namespace ttrace::localize
