#include "audit/skipped_steps.h"

#include <algorithm>
#include <cmath>

#include "base/message.h"
#include "comparison/run_facts.h"
#include "measure/optimizer/step.h"

namespace ttrace::audit {
namespace {

using trace::Kind;

bool is_of_backward(Kind kind) {
  return kind == Kind::kGradOutput || kind == Kind::kGradInput || kind == Kind::kParamGrad ||
         kind == Kind::kMainGrad || kind == Kind::kGradNorm;
}

bool any_not_finite(const specification::Value& value) {
  const specification::Value dense = value.to_dense();
  return std::any_of(dense.elements().begin(), dense.elements().end(),
                     [](double element) { return !std::isfinite(element); });
}

bool is_finite(const AuditedTensor& tensor) {
  return std::none_of(tensor.checks.begin(), tensor.checks.end(), [](const AuditCheck& check) {
    return check.result == CheckResult::kInconsistent && check.operation == "finite values";
  });
}

// Whether it should have been finite: it follows from finite values, and fits its type.
bool is_unexplained(const AuditedTensor& tensor) {
  return std::any_of(tensor.checks.begin(), tensor.checks.end(), [](const AuditCheck& check) {
    return check.result == CheckResult::kInconsistent && check.operation == "expression" &&
           !check.overflow;
  });
}

}  // namespace

bool has_overflowed(const trace::TensorEntry& entry,
                    const std::vector<specification::Value>& leaves,
                    const specification::Value& expected) {
  if (std::any_of(leaves.begin(), leaves.end(), any_not_finite)) return true;
  const double largest =
      std::min(measure::largest_finite(entry.dtype),
               measure::largest_finite(entry.computed_in.value_or(entry.dtype))) *
      std::abs(entry.scale);
  const specification::Value dense = expected.to_dense();
  return std::any_of(dense.elements().begin(), dense.elements().end(),
                     [&](double element) { return !(std::abs(element) < largest); });
}

void mark_overflows(const trace::Manifest& manifest, std::vector<AuditedTensor>& tensors) {
  const std::set<std::uint64_t> skipped = comparison::skipped_steps(manifest);
  if (skipped.empty()) return;
  for (AuditedTensor& tensor : tensors) {
    if (!skipped.contains(tensor.key.step) || !is_of_backward(tensor.key.kind) ||
        is_finite(tensor) || is_unexplained(tensor)) {
      continue;
    }
    tensor.overflowed = true;
    tensor.checks.clear();
    tensor.reason = base::render({"it is not finite, and the GradScaler skipped the step", {}});
  }
}

}  // namespace ttrace::audit
