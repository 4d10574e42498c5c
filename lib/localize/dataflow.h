// Which recorded tensor was computed from which: the graph on which the frontier lives. Built from
// the reference's data flow, whose names are canonical and so hold for every candidate. Source of
// the rules: lib/localize/README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/manifest.h"

namespace ttrace::localize {

struct Node {
  trace::TensorKey key;
  std::optional<std::uint64_t> order;  // execution order in the trace that has it
  bool replayed = false;               // judged by what its own inputs make of it
  std::string holders = "";            // equal for tensors of the same ranks, whose orders compare
};

struct Dataflow {
  // Indices of the nodes that node i depends on directly; a directed graph without cycles.
  std::vector<std::vector<std::size_t>> depends_on;
  // All nodes, every one after those it depends on; ties by step, phase, execution order, key.
  std::vector<std::size_t> topological_order;
  // False where the trace has no `modules`: activations are then chained in execution order.
  bool from_modules = false;
};

// Edges that would close a cycle (a manifest may say anything) are dropped, the same ones always.
Dataflow build_dataflow(const std::vector<Node>& nodes, const std::vector<trace::Module>& modules);

// Scalars that a job records by hand are not in the data flow, so the order of execution stands in.
// Returns for every `scalar` with an order, the last activation, gradient of one or loss before it
// in the same step and micro-batch on the same ranks; nothing for all other nodes. A scalar without
// a micro-batch comes after those of all.
std::vector<std::optional<std::size_t>> last_before_scalars(const std::vector<Node>& nodes);

}  // namespace ttrace::localize
