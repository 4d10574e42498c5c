#include "verdict/second_suspects.h"

namespace ttrace::verdict {

std::vector<SecondSuspect> second_suspects(const Dataflow& flow,
                                           const std::vector<Outcome>& outcomes,
                                           const UsedShares& used,
                                           const std::vector<bool>& on_frontier) {
  std::vector<SecondSuspect> suspects;
  for (const std::size_t node : flow.topological_order) {
    if (outcomes[node] != Outcome::kDiverged || on_frontier[node] || !used[node]) continue;
    SecondSuspect suspect{node, *used[node], 1, std::nullopt};
    bool all_known = !flow.depends_on[node].empty();
    double most = 0;
    for (const std::size_t d : flow.depends_on[node]) {
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
