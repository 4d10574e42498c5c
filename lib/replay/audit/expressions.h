// Judges the tensors of a run by the expressions of a specification, each from the recorded tensors
// it follows from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measure/backend.h"
#include "replay/audit/record.h"
#include "replay/audit/step_coverage.h"
#include "replay/expression/judge_expression.h"
#include "replay/specification/specification.h"
#include "trace/source.h"

namespace ttrace::replay {

struct ExpressionAudit {
  const trace::Source& run;
  const Specification& specification;
  std::string specification_file;  // for messages
  const measure::ExecutionContext& execution;
  Products products = Products::kProbed;
  std::uint64_t held_bytes = 0;  // of specifications, which count as memory of the execution
};

// Adds a check to every tensor with an expression over recorded tensors, or the reason why it
// cannot be judged; marks those that follow from nothing as given, unless every step computes their
// kind. `tensors` are of the run. Returns what was judged. The results are the same for every
// number of threads.
JudgedValues check_expressions(const ExpressionAudit& audit, std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::replay
