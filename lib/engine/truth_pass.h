// The second opinion: every compared tensor held against a run in higher precision.
#pragma once

#include <string>
#include <vector>

#include "comparison/checkpoint.h"
#include "comparison/measure_pairs.h"
#include "comparison/pairing.h"
#include "comparison/result.h"
#include "layout/map_rules.h"
#include "measure/execution_context.h"

namespace ttrace::engine {

struct TruthInput {
  const trace::Source& truth;
  const comparison::Side& reference;
  const comparison::Side& candidate;
  // The reference's rules of a map: the truth is a run of the reference. Those that match nothing
  // in it are passed over.
  const std::vector<layout::MapRule>& map;
  const measure::ExecutionContext& execution;
  comparison::Checkpoint& work;
  const comparison::WorkHooks& hooks;
};

// Gives every record its `truth` where the truth has the tensor in the same shape, and
// sets `out.truth`, warnings and the bytes read. Outcomes stay as they are. Throws an input error
// if the truth's manifest contradicts itself; a tensor that cannot be read is counted and warned
// of.
void add_truth(const TruthInput& input, comparison::CompareReport& out);

}  // namespace ttrace::engine
