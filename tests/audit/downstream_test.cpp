#include <string>
#include <vector>

#include "audit/record.h"
#include "support/catch.h"

namespace ttrace::audit::downstream_test {
namespace {

using trace::Kind;

AuditedTensor broken(Kind kind, const std::string& name, const std::string& operation) {
  AuditedTensor tensor;
  tensor.key.kind = kind;
  tensor.key.name = name;
  tensor.outcome = AuditOutcome::kBroken;
  AuditCheck check;
  check.operation = operation;
  check.result = CheckResult::kInconsistent;
  tensor.checks.push_back(check);
  return tensor;
}

std::vector<AuditedTensor> step_with(const std::string& wrong_gradient) {
  return {broken(Kind::kMainGrad, "weight", wrong_gradient),
          broken(Kind::kGradNorm, "grad_norm", "gradient norm"),
          broken(Kind::kParamAfterStep, "weight", "optimizer step"),
          broken(Kind::kParamAfterStep, "other", "optimizer step")};
}

TEST_CASE("norm and update of gradients whose replicas differ are downstream of them") {
  std::vector<AuditedTensor> tensors = step_with("replicas");
  mark_downstream(tensors);
  CHECK_FALSE(tensors[0].downstream);
  // Which replica each rank took is not known.
  CHECK(tensors[1].downstream);
  CHECK(tensors[2].downstream);
  CHECK_FALSE(tensors[3].downstream);
}

TEST_CASE("norm and update of gradients that are wrong on all ranks alike must follow from them") {
  std::vector<AuditedTensor> tensors = step_with("sum of raw gradients");
  mark_downstream(tensors);
  for (const AuditedTensor& tensor : tensors) CHECK_FALSE(tensor.downstream);
}

TEST_CASE("an update is downstream of the norm of its part alone") {
  std::vector<AuditedTensor> tensors{
      broken(Kind::kGradNorm, "actor", "replicas"),
      broken(Kind::kGradNorm, "grad_norm", "gradient norm"),
      broken(Kind::kParamAfterStep, "actor.weight", "optimizer step"),
      broken(Kind::kParamAfterStep, "critic.weight", "optimizer step")};
  for (AuditedTensor& tensor : tensors) {
    if (tensor.key.name == "actor.weight") tensor.follows_from = {tensors[0].key};
  }
  mark_downstream(tensors);
  std::vector<bool> downstream;
  for (const AuditedTensor& tensor : tensors) downstream.push_back(tensor.downstream);
  CHECK(downstream == std::vector<bool>{false, false, true, false});
}

}  // namespace
}  // namespace ttrace::audit::downstream_test
