// Tokens that went to other experts near a tie are not a bug: what they reach is judged without
// them, or not at all. Source: lib/localize/README.md.
#pragma once

#include <vector>

#include "comparison/measure_pairs.h"
#include "comparison/pairing.h"
#include "comparison/result.h"
#include "judge/calibration.h"
#include "localize/dataflow.h"
#include "measure/execution_context.h"

namespace ttrace::replay {

struct RoutingInput {
  const trace::Source& reference;
  const trace::Source& candidate;
  const std::vector<localize::Node>& nodes;  // node i is out.results[i]
  const localize::Dataflow& flow;
  const std::vector<trace::Module>& modules;
  const comparison::NoiseSource& noise;
  const judge::Policy& rules;
  std::size_t most_slices;
  const measure::ExecutionContext& execution;
};

// Goes through the routers whose choice diverged, in the order of the data flow. Where their scores
// match and every flip is near a tie, the choice is a `routing_flip`, and what diverged and depends
// on it is measured again without the rows of those tokens, if it has such rows: within its
// tolerance it matches, beyond it stays diverged where tokens lie apart. What passes the choice on,
// number by number, is judged as the choice is. What remains, other than conflicts of replicas,
// replayed updates and values that are not finite on one side, is `after_routing_flip`. Sets
// out.routers.
void explain_routing(const RoutingInput& input, comparison::CompareReport& out);

}  // namespace ttrace::replay
