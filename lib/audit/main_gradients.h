// Main gradients, judged from the run's own raw ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "audit/measured_run.h"
#include "audit/record.h"

namespace ttrace::audit {

// How the model's own training loop makes main gradients of raw ones. It comes from the
// specification, because a run's own statement would excuse a wrong factor.
struct GradientAccumulation {
  bool mean = false;  // over micro-batches, else the sum
  double factor = 1;
  std::vector<std::vector<std::string>> tied;  // names of one parameter
  // The scalar of the step that the script multiplies gradients by, such as 1 / number of tokens of
  // all micro-batches; empty if there is none.
  std::string given;
};

// Adds a check to every main gradient, or the reason why it cannot be judged. Without
// `accumulation` none can.
void check_main_gradients(const MeasuredRun& measured,
                          const std::optional<GradientAccumulation>& accumulation,
                          std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
