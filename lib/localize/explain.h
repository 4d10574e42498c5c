// Turns frontier nodes into findings: where the difference sits, what came before, what may be why.
#pragma once

#include <vector>

#include "comparison/pairing.h"
#include "comparison/result.h"
#include "localize/dataflow.h"
#include "localize/frontier.h"
#include "trace/source.h"

namespace ttrace::localize {

struct ExplainInput {
  const trace::Source& reference;
  const trace::Source& candidate;
  const std::vector<comparison::Pair>& pairs;  // node i is pairs[i]
  const std::vector<trace::Module>& modules;
  const Dataflow& flow;
  const std::vector<std::size_t>& position;  // node i is results[position[i]]
};

std::vector<comparison::Finding> explain_findings(const ExplainInput& input,
                                                  const Frontier& frontier,
                                                  const std::vector<comparison::Result>& results);

}  // namespace ttrace::localize
