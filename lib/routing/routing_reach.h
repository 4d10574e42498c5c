// Which tensors a flipped choice of experts reaches.
#pragma once

#include <cstddef>
#include <vector>

#include "localize/dataflow.h"

namespace ttrace::routing {

struct RoutingReach {
  std::vector<std::size_t> nodes;  // what depends on the choice, ascending
  std::vector<bool> apart;         // of node i: each token has rows of its own in it
};

// Returns what the choice of a router reaches, given node `router`: its output, or its input if no
// output was recorded. That is everything downstream of its module's outputs in the same call, and
// of the modules beside it in the module around it (a choice by number leaves no trace in the
// graph). Tokens stay apart within the router's own layer (the innermost numbered module around it,
// else the module around it) until a module of attention (by name or class) has run: it mixes them,
// and so do later layers.
RoutingReach reach_of(const std::vector<localize::FlowNode>& nodes, const localize::Dataflow& flow,
                      const std::vector<trace::Module>& modules, std::size_t router);

}  // namespace ttrace::routing
