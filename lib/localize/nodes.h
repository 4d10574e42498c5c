// The nodes of the data flow, made from the records of a comparison.
#pragma once

#include <string>
#include <vector>

#include "comparison/result.h"
#include "layout/view.h"
#include "localize/dataflow.h"
#include "localize/frontier.h"
#include "localize/second_suspects.h"

namespace ttrace::localize {

// Returns a name for the ranks whose order of execution a tensor's `order` counts: mesh and
// coordinates of the first stored tensor that it is made of; empty where every rank holds it.
std::string rank_group(const layout::View& view);

// Returns one node per record, in the same order.
std::vector<Node> nodes_of(const std::vector<comparison::TensorComparison>& results);

// Puts records, nodes and flow into the order of the data flow. In place: there may be a million.
// Node i is results[i] before and after; every node then depends on earlier ones only.
void order_by_data_flow(std::vector<comparison::TensorComparison>& results,
                        std::vector<Node>& nodes, Dataflow& flow);

// Whether each record's values are the reference's bit for bit. A number that many are summed up in
// (the loss) stands in the data flow for all of them, and integers may be equal by chance: of these
// it says nothing.
std::vector<bool> equal_bits(const std::vector<comparison::TensorComparison>& results);

// Returns the share of the allowed error that each record uses, as UsedShares describes it.
UsedShares used_shares(const std::vector<comparison::TensorComparison>& results);

// Returns the second suspects of a frontier of these records.
std::vector<comparison::Suspect> suspects_of(
    const std::vector<Node>& nodes, const Dataflow& flow, const Frontier& frontier,
    const std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::localize
