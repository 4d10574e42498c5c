#include "verdict/second_suspects.h"

#include <algorithm>
#include <map>

namespace ttrace::verdict {
namespace {

using trace::Kind;

// What the error of a node may have been carried from; empty if the data flow does not tell.
class Sources {
 public:
  Sources(const std::vector<Node>& nodes, const Dataflow& flow) : nodes_(nodes), flow_(flow) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].key.kind == Kind::kOutput) outputs_.emplace(nodes[i].key, i);
    }
  }

  std::vector<std::size_t> of(std::size_t node) const {
    std::vector<std::size_t> found = flow_.depends_on[node];
    const bool by_loss_alone = std::all_of(found.begin(), found.end(), [this](std::size_t d) {
      return nodes_[d].key.kind == Kind::kLoss;
    });
    if (!by_loss_alone) return found;
    trace::TensorKey value = nodes_[node].key;
    value.kind = Kind::kOutput;
    const auto own = outputs_.find(value);
    if (own == outputs_.end()) return {};
    bool of_the_loss = false;
    for (const std::size_t loss : flow_.depends_on[node]) {
      const std::vector<std::size_t>& made_of = flow_.depends_on[loss];
      found.insert(found.end(), made_of.begin(), made_of.end());
      of_the_loss =
          of_the_loss || std::find(made_of.begin(), made_of.end(), own->second) != made_of.end();
    }
    return of_the_loss ? found : std::vector<std::size_t>();
  }

 private:
  const std::vector<Node>& nodes_;
  const Dataflow& flow_;
  std::map<trace::TensorKey, std::size_t> outputs_;
};

}  // namespace

std::vector<SecondSuspect> second_suspects(const std::vector<Node>& nodes, const Dataflow& flow,
                                           const std::vector<Outcome>& outcomes,
                                           const UsedShares& used,
                                           const std::vector<bool>& on_frontier) {
  std::vector<SecondSuspect> suspects;
  const Sources sources(nodes, flow);
  for (const std::size_t node : flow.topological_order) {
    if (outcomes[node] != Outcome::kDiverged || on_frontier[node] || !used[node]) continue;
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

}  // namespace ttrace::verdict
