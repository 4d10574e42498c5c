#include <cmath>
#include <limits>

#include "audit/record.h"
#include "support/catch.h"

namespace ttrace::audit::audit_outcome_test {
namespace {

using trace::Kind;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

AuditCheck check_of(double error, double bound, double expected_norm, double allowed) {
  AuditCheck check;
  check.operation = "expression";
  check.error = error;
  check.bound = bound;
  check.expected_norm = expected_norm;
  check.allowed = allowed;
  return check;
}

TEST_CASE("a check needs a bound that is smaller than what it judges") {
  struct Case {
    AuditCheck check;
    bool equal_bits;
    CheckResult result;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Case> cases{
      {check_of(0.1, 0.5, 2, 1), false, CheckResult::kConsistent},
      {check_of(0.1, 1, 2, 2), false, CheckResult::kBelowBound},
      {check_of(0.1, 1, 2, 2), true, CheckResult::kConsistent},
      {check_of(kInfinite, 0, 0, 1), false, CheckResult::kBelowBound},
      {check_of(0.1, kInfinite, 2, kInfinite), false, CheckResult::kBelowBound},
      {check_of(0.1, nan, 2, nan), false, CheckResult::kBelowBound},
      {check_of(nan, 0.5, 2, 1), false, CheckResult::kBelowBound},
  };
  for (Case one : cases) {
    one.check.require_bound(one.equal_bits);
    CHECK(one.check.result == one.result);
    CHECK(one.check.reason.empty() == (one.result == CheckResult::kConsistent));
  }
}

AuditedTensor gradient(const std::string& name, tensor::Shape shape, double norm,
                       const AuditCheck& check) {
  AuditedTensor tensor;
  tensor.key.kind = Kind::kParamGrad;
  tensor.key.name = name;
  tensor.shape = std::move(shape);
  tensor.norm = norm;
  tensor.checks.push_back(check);
  return tensor;
}

TEST_CASE("a gradient that cancels is zero if it is small against its module's weight") {
  const AuditCheck holds = check_of(1e-7, 1e-6, 8, 8e-6);
  AuditCheck below = check_of(0.3, 2, 1e-6, 2e-6);
  below.require_bound(false);
  const auto outcome = [&](double norm, const AuditCheck& of_bias, const std::string& weight) {
    std::vector<AuditedTensor> tensors{gradient("key.bias", {16}, norm, of_bias),
                                       gradient(weight, {16, 16}, 8, holds)};
    settle_outcomes(tensors);
    return tensors[0].outcome;
  };
  CHECK(outcome(1e-6, below, "key.weight") == AuditOutcome::kZeroWithinRounding);
  // Of another module, or as large as the weight's.
  CHECK(outcome(1e-6, below, "query.weight") == AuditOutcome::kBelowBound);
  CHECK(outcome(2, below, "key.weight") == AuditOutcome::kBelowBound);
  AuditCheck wide = check_of(0.3, 2, 1, 2);
  wide.require_bound(false);
  CHECK(outcome(1e-6, wide, "key.weight") == AuditOutcome::kBelowBound);
}

TEST_CASE("an outcome is that of the checks that say what the value must be") {
  AuditedTensor tensor = gradient("a.weight", {2}, 1, check_of(0, 0.5, 2, 1));
  tensor.checks.front().operation = "finite values";
  std::vector<AuditedTensor> tensors{tensor};
  settle_outcomes(tensors);
  CHECK(tensors[0].outcome == AuditOutcome::kNotJudged);
  tensors[0].checks.front().operation = "expression";
  settle_outcomes(tensors);
  CHECK(tensors[0].outcome == AuditOutcome::kHolds);
  tensors[0].checks.front().result = CheckResult::kInconsistent;
  settle_outcomes(tensors);
  CHECK(tensors[0].outcome == AuditOutcome::kBroken);
  CHECK(tensors[0].judged());
}

}  // namespace
}  // namespace ttrace::audit::audit_outcome_test
