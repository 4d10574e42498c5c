#include "verdict/finding_order.h"

#include <algorithm>
#include <utility>

#include "verdict/phase.h"

namespace ttrace::verdict {

void order_findings(const std::vector<Node>& nodes, const std::vector<Outcome>& outcomes,
                    std::vector<Finding>& findings) {
  const auto place = [&](const Finding& finding) {
    const trace::TensorKey& key = nodes[finding.first].key;
    const Phase phase = phase_of(key);
    int turn = 2;
    if (outcomes[finding.first] == Outcome::kExtra) {
      turn = 3;
    } else if (phase == Phase::kParameter || phase == Phase::kInput) {
      turn = 0;
    } else if (outcomes[finding.first] == Outcome::kReplicaConflict) {
      turn = 1;
    }
    return std::pair(key.step, turn);
  };
  std::stable_sort(findings.begin(), findings.end(),
                   [&place](const Finding& a, const Finding& b) { return place(a) < place(b); });
}

}  // namespace ttrace::verdict
