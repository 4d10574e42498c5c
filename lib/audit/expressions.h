// Judges the tensors of a run by the expressions of a specification, each from the recorded tensors
// it follows from.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "audit/record.h"
#include "audit/step_coverage.h"
#include "comparison/checkpoint/checkpoint.h"
#include "comparison/division.h"
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
  // What is judged already, and where judgements are recorded; or null.
  comparison::Checkpoint* work = nullptr;
  // A part judges what it has measured, and leaves the causes to the merge.
  comparison::WorkDivision division = {};
  const std::atomic<bool>* stop = nullptr;  // once true, tensors are left undone
};

// Adds a check to every tensor with an expression over recorded tensors, or the reason why it
// cannot be judged. Marks tensors that follow from nothing as given, unless every step computes
// their kind. `tensors` are those of the run. Returns what was judged. The results are the same for
// every number of threads. Throws an input error if a restored judgement is malformed, or if the
// parts of a merge together have not judged everything.
JudgedValues check_expressions(const ExpressionAudit& audit, std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
