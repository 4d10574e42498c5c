// Judges the tensors of a run by the expressions of a specification, each from the recorded tensors
// it follows from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "audit/record.h"
#include "audit/step_coverage.h"
#include "measure/backend.h"
#include "specification/evaluate/judge_expression.h"
#include "specification/specification.h"
#include "trace/source.h"

namespace ttrace::audit {

struct ExpressionAudit {
  const trace::Source& run;
  const specification::Specification& specification;
  std::string specification_file;  // for messages
  const measure::ExecutionContext& execution;
  specification::Products products = specification::Products::kProbed;
  std::uint64_t held_bytes = 0;  // of specifications, which count as memory of the execution
};

// Adds a check to every tensor with an expression over recorded tensors, or the reason why it
// cannot be judged; marks those that follow from nothing as given, unless every step computes their
// kind. `tensors` are of the run. Returns what was judged. The results are the same for every
// number of threads.
JudgedValues check_expressions(const ExpressionAudit& audit, std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
