#include "audit/consequences.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "audit/recorded_tensors.h"
#include "specification/expression.h"

namespace ttrace::audit {
namespace {

bool is_slip(const localize::LocalizedFinding& finding) {
  return !finding.causes.empty() && finding.causes.front().name == "wrong_layout_declared";
}

class Consequences {
 public:
  Consequences(const specification::Specification& specification, const trace::Manifest& candidate,
               const std::vector<AuditedTensor>& judged,
               const localize::ReportedComparison& comparison)
      : specification_(specification),
        recorded_(candidate),
        bad_(comparison.bad.begin(), comparison.bad.end()) {
    for (const AuditedTensor& tensor : judged) judged_.emplace(tensor.key, &tensor);
    for (const localize::LocalizedFinding& finding : comparison.findings) {
      if (!is_slip(finding)) continue;
      for (const trace::TensorKey& key : finding.keys) bad_.erase(key);
    }
  }

  bool is_one(const localize::LocalizedFinding& finding) const {
    return finding.outcome == "diverged" && !finding.keys.empty() && !is_slip(finding) &&
           std::all_of(finding.keys.begin(), finding.keys.end(),
                       [this](const auto& key) { return holds(key) && reads_a_bad_one(key); });
  }

 private:
  bool holds(const trace::TensorKey& key) const {
    const auto found = judged_.find(key);
    if (found == judged_.end() || found->second->outcome != AuditOutcome::kHolds) return false;
    const auto& checks = found->second->checks;
    return std::any_of(checks.begin(), checks.end(), [](const AuditCheck& check) {
      return check.operation == "expression" && check.result == CheckResult::kConsistent;
    });
  }

  bool reads_a_bad_one(const trace::TensorKey& key) const {
    const auto number = specification_.find(key);
    if (!number) return false;
    const auto found = specification::expression_of(
        specification_, *number,
        [&](std::size_t tensor) { return recorded_.find(specification_, tensor, key) != nullptr; });
    const auto* expression = std::get_if<specification::Expression>(&found);
    if (expression == nullptr) return false;
    return std::any_of(
        expression->leaves.begin(), expression->leaves.end(), [&](const specification::Leaf& leaf) {
          const auto& names = specification_.names_of_value(leaf.tensor);
          return std::any_of(names.begin(), names.end(), [&](std::uint32_t name) {
            const trace::TensorEntry* entry = recorded_.find(specification_, name, key);
            return entry != nullptr && entry->key != key && bad_.contains(entry->key);
          });
        });
  }

  const specification::Specification& specification_;
  RecordedTensors recorded_;
  std::set<trace::TensorKey> bad_;
  std::map<trace::TensorKey, const AuditedTensor*> judged_;
};

}  // namespace

void set_consequences_apart(const specification::Specification& specification,
                            const trace::Manifest& candidate,
                            const std::vector<AuditedTensor>& judged,
                            localize::LocalizeReport& report) {
  const Consequences consequences(specification, candidate, judged, report.comparison);
  std::vector<localize::LocalizedFinding> kept;
  std::vector<localize::LocalizedFinding> apart;
  for (localize::LocalizedFinding& finding : report.findings) {
    const bool is_one = consequences.is_one(finding);
    (is_one ? apart : kept).push_back(std::move(finding));
  }
  if (kept.empty() && !apart.empty()) {
    kept.push_back(std::move(apart.front()));
    apart.erase(apart.begin());
  }
  report.findings = std::move(kept);
  for (const localize::LocalizedFinding& finding : apart) {
    report.consequences.push_back(finding.title);
  }
}

}  // namespace ttrace::audit
