// Which recorded tensor was computed from which: the graph on which the frontier lives. It is built
// from the reference's data flow, whose names are canonical and so hold for every candidate. The
// rules and their evidence: lib/localize/README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/shared_value.h"
#include "comparison/result.h"
#include "trace/manifest.h"

namespace ttrace::localize {

struct FlowNode {
  trace::TensorKey key;
  std::optional<std::uint64_t> order;              // execution order in the trace that has it
  bool replayed = false;                           // judged by a replay of its own inputs
  base::SharedValue<std::string> rank_group = {};  // `order` compares within one group of ranks
  bool in_candidate_alone = false;                 // whose order says nothing of the reference's
};

struct Dataflow {
  // Indices of the nodes that node i depends on directly; a directed graph without cycles.
  std::vector<std::vector<std::size_t>> depends_on;
  // All nodes, every one after those it depends on; ties by step, phase, execution order, key.
  std::vector<std::size_t> topological_order;
  // False where the trace has no `modules`: activations are then chained in execution order.
  bool from_modules = false;
};

// Returns of every node whether it is one of `from` or can be reached from them by `edges`.
std::vector<bool> reached(const std::vector<std::vector<std::size_t>>& edges,
                          std::vector<std::size_t> from);

// Returns a name for the ranks whose order of execution a tensor's `order` counts: mesh and
// coordinates of the first stored tensor that it is made of; empty where every rank has it.
std::string rank_group(const layout::View& view);

// Returns one node per record, in the same order.
std::vector<FlowNode> nodes_of(const std::vector<comparison::TensorComparison>& results);

// Edges that would close a cycle (a manifest may say anything) are dropped, always the same ones.
Dataflow build_dataflow(const std::vector<FlowNode>& nodes,
                        const std::vector<trace::Module>& modules);

// Sorts records, nodes and flow by the data flow, in place since there may be a million. Node i is
// results[i] before and after; afterwards every node depends on earlier ones only.
void order_by_data_flow(std::vector<comparison::TensorComparison>& results,
                        std::vector<FlowNode>& nodes, Dataflow& flow);

// Chains activations and their gradients in execution order within a step, for a trace without
// modules, apart for every rank group. result[i] lists the dependencies of node i that the rules
// (dataflow_index.h) do not give.
std::vector<std::vector<std::size_t>> execution_chain(const std::vector<FlowNode>& nodes);

// Returns for every `scalar` with an order the last activation, gradient of one or loss before it
// in the same step, micro-batch and rank group: scalars that a job records by hand are not in the
// data flow. Nothing for all other nodes. A scalar without a micro-batch comes after those of all.
std::vector<std::optional<std::size_t>> last_before_scalars(const std::vector<FlowNode>& nodes);

}  // namespace ttrace::localize
