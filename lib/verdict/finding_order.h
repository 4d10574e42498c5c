// Which of several first divergences is told first.
#pragma once

#include <vector>

#include "verdict/frontier.h"

namespace ttrace::verdict {

// Step by step: parameters and inputs before the step, since another model or other data explain
// everything; then copies that disagree, since which of them the rest was computed from is not
// known; then all others. Within these the order stays. Source: method §3.
void order_findings(const std::vector<Node>& nodes, const std::vector<Outcome>& outcomes,
                    std::vector<Finding>& findings);

}  // namespace ttrace::verdict
