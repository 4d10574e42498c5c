// What the choice of a router reaches: where tokens still lie apart in rows, and where they mix.
#pragma once

#include <cstddef>
#include <vector>

#include "localize/dataflow.h"
#include "trace/manifest.h"

namespace ttrace::replay {

struct RoutingReach {
  std::vector<std::size_t> nodes;  // what depends on the choice, ascending
  std::vector<bool> apart;         // of node i: tokens lie apart in it
};

// Of the router whose output, or input if no output was recorded, is node `router`. What depends on
// it is everything downstream of its module's outputs in the same call, and of what runs beside it
// in the module around it (a choice by number leaves no trace in the graph). Tokens lie apart from
// there through the router's own layer, the innermost module around it that is numbered, else the
// one around it, as long as no module of attention (by name or class) has run: that mixes them, and
// so do later layers.
RoutingReach reach_of(const std::vector<localize::Node>& nodes, const localize::Dataflow& flow,
                      const std::vector<trace::Module>& modules, std::size_t router);

}  // namespace ttrace::replay
