// Turns frontier nodes into findings: where the difference is, what came before, what may be why.
// Also the descriptions that findings consist of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "judge/slices.h"
#include "localize/dataflow.h"
#include "localize/frontier.h"
#include "measure/measure.h"
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

// Completes the findings of the frontier. Reads the tensors of the first findings again.
std::vector<comparison::ComparedFinding> explain_findings(const ExplainInput& input,
                                                          const Frontier& frontier);

}  // namespace ttrace::localize
