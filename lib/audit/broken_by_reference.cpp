#include "audit/broken_by_reference.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/message.h"

namespace ttrace::audit {

using trace::Kind;

void discount_what_the_reference_breaks(const std::vector<AuditedTensor>& reference,
                                        std::vector<AuditedTensor>& candidate) {
  std::map<std::tuple<Kind, std::string, std::uint64_t>, std::set<std::string>> broken;
  for (const AuditedTensor& tensor : reference) {
    for (const AuditCheck& check : tensor.checks) {
      if (check.result != CheckResult::kInconsistent) continue;
      broken[{tensor.key.kind, tensor.key.name, tensor.key.call}].insert(check.operation);
    }
  }
  for (AuditedTensor& tensor : candidate) {
    const auto found = broken.find({tensor.key.kind, tensor.key.name, tensor.key.call});
    if (found == broken.end()) continue;
    for (AuditCheck& check : tensor.checks) {
      if (!found->second.contains(check.operation)) continue;
      check.result = CheckResult::kNotReplayable;
      check.reason = base::render({"the reference breaks it too", {}});
      tensor.reason = check.reason;
    }
    tensor.outcome = AuditOutcome::kNotJudged;
  }
  settle_outcomes(candidate);
}

}  // namespace ttrace::audit
