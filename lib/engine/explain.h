// Turns frontier nodes into findings: where the difference sits, what came before, what may be why.
#pragma once

#include <vector>

#include "engine/pairing.h"
#include "report/compare_report.h"
#include "trace/source.h"
#include "verdict/dataflow.h"
#include "verdict/frontier.h"

namespace ttrace::engine {

struct ExplainInput {
  const trace::Source& reference;
  const trace::Source& candidate;
  const std::vector<Pair>& pairs;  // node i is pairs[i]
  const std::vector<trace::Module>& modules;
  const verdict::Dataflow& flow;
  const std::vector<std::size_t>& position;  // node i is results[position[i]]
};

std::vector<report::Finding> explain_findings(const ExplainInput& input,
                                              const verdict::Frontier& frontier,
                                              const std::vector<report::Result>& results);

}  // namespace ttrace::engine
