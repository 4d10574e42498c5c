#include "comparison/result.h"

#include "base/text.h"

namespace ttrace::comparison {

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMatch:
      return "match";
    case Verdict::kDiverged:
      return "diverged";
    case Verdict::kInconclusive:
      return "inconclusive";
  }
  return "";
}

void set_execution(const measure::ExecutionContext& execution, Environment& environment) {
  environment.backend = execution.backend->name();
  environment.instruction_set = execution.backend->instruction_set();
  environment.remarks = execution.backend->remarks();
  environment.threads = execution.thread_count();
}

std::string execution_text(const Environment& environment) {
  const std::string remarks =
      environment.remarks.empty() ? "" : base::concat(" (", environment.remarks, ")");
  return base::concat(environment.backend, " ", environment.instruction_set, ", ",
                      base::plural(environment.threads, "thread"), remarks);
}

int exit_code(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMatch:
      return 0;
    case Verdict::kDiverged:
      return 1;
    case Verdict::kInconclusive:
      return 3;
  }
  return 3;
}

}  // namespace ttrace::comparison
