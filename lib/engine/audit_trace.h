// The story of `ttrace audit`: one run in, every tensor judged by what it was computed from.
#pragma once

#include <atomic>
#include <string>

#include "audit/verdict.h"
#include "comparison/checkpoint/checkpoint.h"
#include "comparison/division.h"
#include "comparison/selection.h"
#include "measure/backend.h"
#include "specification/specification.h"
#include "trace/source.h"

namespace ttrace::engine {

struct AuditOptions {
  comparison::Selection selection;
  measure::ExecutionContext execution;
  const specification::Specification* specification = nullptr;
  std::string specification_file = "";     // what it was read from, for messages
  bool exact = false;                      // multiply out every product
  std::string rules_file = "";             // what the rules of the selection were read from
  comparison::WorkDivision division = {};  // its unit is set by the audit
  // What is already measured, and where new measurements are recorded; or null.
  comparison::Checkpoint* work = nullptr;
  const std::atomic<bool>* stop = nullptr;  // once true, the report covers what is known
};

// Throws a usage error if the selection matches nothing, an input error if the manifest contradicts
// itself or the specification is of another model. A tensor or rank that cannot be read is an
// outcome, not an error. Everything but `environment` is the same for every number of threads.
audit::AuditReport audit_trace(const trace::Source& run, const AuditOptions& options);

}  // namespace ttrace::engine
