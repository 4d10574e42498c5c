// Turns frontier nodes into findings: where the difference sits, what came before, what may be why.
#pragma once

#include <vector>

#include "comparison/pairing.h"
#include "comparison/result.h"
#include "localize/dataflow.h"
#include "localize/frontier.h"
#include "measure/backend.h"
#include "trace/source.h"

namespace ttrace::localize {

struct ExplainInput {
  const trace::Source& reference;
  const trace::Source& candidate;
  const std::vector<comparison::TensorComparison>& results;  // node i is results[i]
  const std::vector<trace::Module>& modules;
  const Dataflow& flow;
  const measure::Backend& backend;
};

std::vector<comparison::Finding> explain_findings(const ExplainInput& input,
                                                  const Frontier& frontier);

}  // namespace ttrace::localize
