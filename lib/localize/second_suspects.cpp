#include "localize/second_suspects.h"

#include <algorithm>
#include <string_view>

#include "localize/node_index.h"

namespace ttrace::localize {
namespace {

using trace::Kind;

// What the error of a node may have been carried from; empty if the data flow does not tell.
class Sources {
 public:
  Sources(const std::vector<Node>& nodes, const Dataflow& flow)
      : nodes_(nodes), flow_(flow), index_(nodes) {}

  std::vector<std::size_t> of(std::size_t node) const {
    std::vector<std::size_t> found = flow_.depends_on[node];
    const bool by_loss_alone = std::all_of(found.begin(), found.end(), [this](std::size_t d) {
      return nodes_[d].key.kind == Kind::kLoss;
    });
    if (by_loss_alone) return of_the_loss(node);
    if (nodes_[node].key.kind == Kind::kGradOutput) add_forward_values(node, found);
    return found;
  }

 private:
  std::vector<std::size_t> of_the_loss(std::size_t node) const {
    const trace::TensorKey& key = nodes_[node].key;
    const std::vector<std::size_t> own = index_.find(key, Kind::kOutput, key.name);
    std::vector<std::size_t> found = flow_.depends_on[node];
    bool is_of_the_loss = false;
    for (const std::size_t loss : flow_.depends_on[node]) {
      const std::vector<std::size_t>& made_of = flow_.depends_on[loss];
      found.insert(found.end(), made_of.begin(), made_of.end());
      is_of_the_loss = is_of_the_loss ||
                       std::find_first_of(made_of.begin(), made_of.end(), own.begin(), own.end()) !=
                           made_of.end();
    }
    return is_of_the_loss ? found : std::vector<std::size_t>();
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

  const std::vector<Node>& nodes_;
  const Dataflow& flow_;
  NodeIndex index_;
};

}  // namespace

std::vector<SecondSuspect> second_suspects(const std::vector<Node>& nodes, const Dataflow& flow,
                                           const std::vector<judge::Outcome>& outcomes,
                                           const UsedShares& used,
                                           const std::vector<bool>& on_frontier) {
  std::vector<SecondSuspect> suspects;
  const Sources sources(nodes, flow);
  for (const std::size_t node : flow.topological_order) {
    if (outcomes[node] != judge::Outcome::kDiverged || on_frontier[node] || !used[node]) continue;
    SecondSuspect suspect{node, *used[node], 1, std::nullopt};
    const std::vector<std::size_t> from = sources.of(node);
    bool all_known = !from.empty();
    double most = 0;
    for (const std::size_t d : from) {
      all_known = all_known && used[d];
      if (!used[d] || !(*used[d] > most)) continue;
      most = *used[d];
      suspect.largest = d;
    }
    if (most > 1) suspect.used_before = most;
    if (all_known && suspect.used > kMostCarried * suspect.used_before) {
      suspects.push_back(suspect);
    }
  }
  return suspects;
}

}  // namespace ttrace::localize
