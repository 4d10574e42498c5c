#include "audit/skipped_steps.h"

#include <limits>

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::audit::skipped_steps_test {
namespace {

using trace::Kind;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

trace::Manifest manifest_of(bool skipped) {
  trace::Manifest manifest;
  trace::OptimizerGroup group;
  group.step = 3;
  if (skipped) group.switches["skipped"] = true;
  manifest.optimizer.push_back(group);
  return manifest;
}

// A gradient that is not finite, with the result of its expression.
AuditedTensor gradient_of(Kind kind, std::uint64_t step, CheckResult expression, bool overflow) {
  AuditedTensor tensor;
  tensor.key = test::make_key("w", kind);
  tensor.key.step = step;
  AuditCheck finite;
  finite.operation = "finite values";
  finite.result = CheckResult::kInconsistent;
  AuditCheck own;
  own.operation = "expression";
  own.result = expression;
  own.overflow = overflow;
  tensor.checks = {finite, own};
  return tensor;
}

TEST_CASE("gradients that overflowed are excused in a step that a scaler skipped alone") {
  const auto marked = [](bool skipped, Kind kind, std::uint64_t step, CheckResult expression,
                         bool overflow) {
    std::vector<AuditedTensor> tensors{gradient_of(kind, step, expression, overflow)};
    mark_overflows(manifest_of(skipped), tensors);
    return tensors.front().overflowed && tensors.front().checks.empty();
  };
  CHECK(marked(true, Kind::kParamGrad, 3, CheckResult::kConsistent, false));
  CHECK(marked(true, Kind::kGradOutput, 3, CheckResult::kInconsistent, true));
  CHECK_FALSE(marked(true, Kind::kGradOutput, 3, CheckResult::kInconsistent, false));
  CHECK_FALSE(marked(true, Kind::kLoss, 3, CheckResult::kConsistent, false));
  CHECK_FALSE(marked(true, Kind::kParamGrad, 4, CheckResult::kConsistent, false));
  CHECK_FALSE(marked(false, Kind::kParamGrad, 3, CheckResult::kConsistent, false));
}

TEST_CASE("a value overflows beyond the largest number of its type, or behind one that did") {
  trace::TensorEntry entry = test::make_entry("w", {2}, Kind::kGradOutput);
  entry.dtype = tensor::DType::kFloat16;
  entry.scale = 0.5;
  const specification::Value fine = specification::Value::of({2}, {1, 2});
  CHECK_FALSE(has_overflowed(entry, {fine}, specification::Value::of({2}, {1, 30000})));
  CHECK(has_overflowed(entry, {fine}, specification::Value::of({2}, {1, 33000})));
  CHECK(has_overflowed(entry, {specification::Value::of({2}, {1, kInfinite})}, fine));
  entry.dtype = tensor::DType::kFloat32;
  CHECK_FALSE(has_overflowed(entry, {fine}, specification::Value::of({2}, {1, 33000})));
  entry.computed_in = tensor::DType::kFloat16;
  CHECK(has_overflowed(entry, {fine}, specification::Value::of({2}, {1, 33000})));
}

}  // namespace
}  // namespace ttrace::audit::skipped_steps_test
