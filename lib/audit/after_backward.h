// What follows the backward of a step, judged from the run's own values: main gradients from the
// raw ones, the gradient norm from the main gradients, and parameters from the step before.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "audit/record.h"
#include "measure/backend.h"
#include "specification/specification.h"
#include "trace/source.h"

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

// What is known of the tensors of a run from measuring it against itself.
struct MeasuredRun {
  const trace::Source& run;
  const measure::ExecutionContext& execution;
  const std::map<trace::TensorKey, double>& norms;  // ‖x‖, of those that could be read
  // The parameters that get gradients; nothing if no specification says so.
  std::optional<std::set<std::string>> trained;
  const specification::Specification* specification = nullptr;
};

// Adds a check to every main gradient, or the reason why it cannot be judged. Without
// `accumulation` none can.
void check_main_gradients(const MeasuredRun& measured,
                          const std::optional<GradientAccumulation>& accumulation,
                          std::vector<AuditedTensor>& tensors);

// Adds a check to every gradient norm, or the reason why it cannot be judged.
void check_gradient_norms(const MeasuredRun& measured, std::vector<AuditedTensor>& tensors);

// Gives main gradients and gradient norms the reason why none is checked: the checks need all
// tensors of the step. `is_part`: only the merge has them; else some were not judged.
void leave_after_backward(bool is_part, std::vector<AuditedTensor>& tensors);

// Adds a check to every parameter whose updated value the step before recorded.
void check_steps(const MeasuredRun& measured, std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
