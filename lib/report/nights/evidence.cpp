#include "report/nights/evidence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "answer/counted_findings.h"
#include "base/message.h"

namespace ttrace::report {
namespace {

// A cause that says only where the error is comes and goes with the noise.
bool says_only_where(std::string_view cause) { return cause == "mask_or_rows"; }

std::vector<std::string> causes_of(const answer::AnsweredFinding& finding) {
  std::vector<std::string> causes;
  if (const auto& setting = finding.setting) {
    causes.push_back(
        base::render({"{reference} in the reference and {candidate} in the candidate",
                      {{"reference", setting->reference}, {"candidate", setting->candidate}}}));
  }
  if (!finding.causes) return causes;
  for (const answer::Cause& cause : *finding.causes) {
    if (says_only_where(cause.name)) continue;
    causes.push_back(
        base::render({"{name}[ over {axis}]", {{"name", cause.name}, {"axis", cause.axis}}}));
  }
  return causes;
}

// NaN if either is: what is not a number is no small one.
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

double ratio(double error, double allowed) {
  if (allowed > 0) return error / allowed;
  return error == 0 ? 0 : error * std::numeric_limits<double>::infinity();
}

}  // namespace

std::map<std::string, Evidence> evidence_of(const answer::Answer& answer) {
  std::map<std::string, Evidence> found;
  std::map<std::string, Evidence> of_group;
  std::vector<std::pair<std::string, std::string>> untold;  // member, group
  for (const answer::AnsweredFinding& finding : answer.findings) {
    if (!finding.causes && !finding.setting) {
      for (const std::string& member : answer::members_of(finding)) {
        untold.emplace_back(member, finding.group);
      }
      continue;
    }
    Evidence evidence{causes_of(finding), finding.ranks.value_or(std::vector<std::uint64_t>{})};
    std::sort(evidence.ranks.begin(), evidence.ranks.end());
    if (!finding.group.empty()) of_group[finding.group].causes = evidence.causes;
    for (const std::string& member : answer::members_of(finding)) found.emplace(member, evidence);
  }
  for (const auto& [member, group] : untold) {
    const auto told = of_group.find(group);
    if (told != of_group.end()) found.emplace(member, told->second);
  }
  return found;
}

std::set<std::string> suspects_of(const answer::Answer& answer) {
  std::set<std::string> ids;
  if (!answer.suspects) return ids;
  for (const answer::Answer::Suspect& one : *answer.suspects) ids.insert(one.id);
  return ids;
}

bool is_finite_on_one_side(const answer::AnsweredTensor& tensor) {
  return tensor.numbers && tensor.numbers->nonfinite && tensor.numbers->nonfinite->different > 0;
}

std::optional<double> furthest_use(const answer::AnsweredTensor& tensor) {
  std::optional<double> used = tensor.used;
  if (!used || !tensor.numbers) return used;
  const answer::AnsweredTensor::Numbers& numbers = *tensor.numbers;
  if (numbers.replica_drift) used = larger(*used, ratio(*numbers.replica_drift, numbers.allowed));
  for (const answer::AnsweredTensor::Slice& slice : numbers.slices) {
    used = larger(*used, ratio(slice.error, slice.allowed));
  }
  return used;
}

}  // namespace ttrace::report
