#include "verdict/scalar_order.h"

#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace ttrace::verdict {
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

}  // namespace ttrace::verdict
