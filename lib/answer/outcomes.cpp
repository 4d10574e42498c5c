#include "answer/outcomes.h"

#include <algorithm>
#include <array>

#include "answer/audited_tensor.h"
#include "judge/outcome.h"

namespace ttrace::answer {

std::vector<std::string_view> all_outcomes() {
  std::vector<std::string_view> names;
  for (const judge::Outcome outcome : judge::kAllOutcomes) names.push_back(outcome_name(outcome));
  for (const AuditOutcome outcome :
       {AuditOutcome::kHolds, AuditOutcome::kBroken, AuditOutcome::kGiven,
        AuditOutcome::kBelowBound, AuditOutcome::kZeroWithinRounding}) {
    names.push_back(audit_outcome_name(outcome));
  }
  names.push_back("setting");
  return names;
}

bool was_checked(std::string_view outcome) {
  constexpr std::array<std::string_view, 9> kUnchecked{
      "below_noise_floor", "unreadable",   "skipped_by_rule", "routing_flip", "after_routing_flip",
      "not_judged",        "not_recorded", "below_bound",     "given"};
  return std::find(kUnchecked.begin(), kUnchecked.end(), outcome) == kUnchecked.end();
}

bool is_right(std::string_view outcome) {
  return outcome == "match" || outcome == "holds" || outcome == "zero_within_rounding";
}

bool is_wrong(std::string_view outcome) {
  return outcome == audit_outcome_name(AuditOutcome::kBroken) ||
         std::any_of(judge::kAllOutcomes.begin(), judge::kAllOutcomes.end(),
                     [outcome](judge::Outcome one) {
                       return judge::outcome_name(one) == outcome && judge::is_bad(one);
                     });
}

}  // namespace ttrace::answer
