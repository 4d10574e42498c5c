// Tokens that went to other experts near a tie are not a bug: what their choice reaches is judged
// without them, or not at all. The method: lib/localize/README.md.
#pragma once

#include <cstddef>
#include <vector>

#include "comparison/measure_pairs.h"
#include "comparison/result.h"
#include "judge/calibration.h"
#include "localize/dataflow.h"
#include "measure/backend.h"

namespace ttrace::routing {

struct RoutingInput {
  const trace::Source& reference;
  const trace::Source& candidate;
  const std::vector<localize::FlowNode>& nodes;  // node i is out.results[i]
  const localize::Dataflow& flow;
  const std::vector<trace::Module>& modules;
  const comparison::NoiseSource& noise;
  const judge::Policy& rules;
  std::size_t most_slices;
  const measure::ExecutionContext& execution;
};

// Goes through the routers whose choice diverged, in the order of the data flow. If their scores
// match and every flip is near a tie, the choice is a `routing_flip`. A tensor that diverged and
// depends on it is measured again without the rows of those tokens, if it has such rows: within its
// tolerance it matches; beyond it, it stays diverged where tokens lie apart. A tensor that passes
// the choice on, number by number, gets the outcome of the choice. Everything else downstream that
// diverged becomes `after_routing_flip`, except replica conflicts, replayed updates and values that
// are not finite on one side. Sets out.routers.
void explain_routing(const RoutingInput& input, comparison::CompareReport& out);

}  // namespace ttrace::routing
