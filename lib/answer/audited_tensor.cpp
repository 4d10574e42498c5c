#include "answer/audited_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/message.h"

namespace ttrace::answer {

std::string_view check_result_name(CheckResult result) {
  constexpr std::array<std::string_view, 4> kNames{"consistent", "inconsistent", "not_replayable",
                                                   "below_bound"};
  return kNames.at(static_cast<std::size_t>(result));
}

std::string_view audit_outcome_name(AuditOutcome outcome) {
  constexpr std::array<std::string_view, 6> kNames{"holds", "broken",      "not_judged",
                                                   "given", "below_bound", "zero_within_rounding"};
  return kNames.at(static_cast<std::size_t>(outcome));
}

bool judges_value(const AuditCheck& check) {
  return check.operation != "replicas" && check.operation != "finite values";
}

double AuditCheck::share() const {
  if (bound > 0) return error / bound;
  return error == 0 ? 0 : std::numeric_limits<double>::infinity();
}

void AuditCheck::require_bound(bool equal_bits) {
  if (result != CheckResult::kConsistent || equal_bits) return;
  // Comparisons with NaN are false.
  if (allowed < expected_norm && std::isfinite(share())) return;
  result = CheckResult::kBelowBound;
  reason = base::render({kBelowBoundReason, {}});
}

const AuditCheck* AuditedTensor::broken_check() const {
  const auto found = std::find_if(checks.begin(), checks.end(), [](const AuditCheck& check) {
    return check.result == CheckResult::kInconsistent;
  });
  return found == checks.end() ? nullptr : &*found;
}

}  // namespace ttrace::answer
