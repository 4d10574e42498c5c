// --truth: how far both sides of a comparison are from a run in higher precision.
#pragma once

#include <vector>

#include "comparison/checkpoint/checkpoint.h"
#include "comparison/measure_pairs.h"
#include "comparison/pairing.h"
#include "comparison/result.h"
#include "layout/map_rules.h"
#include "measure/backend.h"
#include "trace/source.h"

namespace ttrace::comparison {

// The tensors of a comparison and a run in higher precision, --truth.
struct TruthInput {
  const trace::Source& truth;
  const Side& reference;
  const Side& candidate;
  // The reference's rules of a map: the truth is a run of the reference. Rules that match nothing
  // in it are ignored.
  const std::vector<layout::MapRule>& map;
  const measure::ExecutionContext& execution;
  Checkpoint& work;
  const WorkHooks& hooks;
};

// Compares every tensor with a run in higher precision.
// Gives every record its `truth` where the truth has the tensor in the same shape, and sets
// `out.truth`, warnings and the bytes read. Outcomes stay as they are. Throws an input error if the
// truth's manifest contradicts itself; a tensor that cannot be read is counted and warned of.
void add_truth(const TruthInput& input, CompareReport& out);

}  // namespace ttrace::comparison
