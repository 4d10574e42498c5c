#include "answer/counted_findings.h"

#include <map>
#include <set>
#include <string_view>

namespace ttrace::answer {

const std::string& CountedFinding::heading() const {
  if (group != nullptr) return group->headline.empty() ? group->title : group->headline;
  if (!finding->headline.empty()) return finding->headline;
  return finding->title.empty() ? finding->id : finding->title;
}

std::vector<TensorId> CountedFinding::members() const {
  return group != nullptr ? group->findings : members_of(*finding);
}

std::vector<TensorId> members_of(const AnsweredFinding& finding) {
  const bool itself = finding.setting || !finding.members || finding.members->empty();
  return itself ? std::vector<TensorId>{finding.id} : *finding.members;
}

std::vector<CountedFinding> counted_findings(const Answer& answer) {
  std::map<std::string_view, const Answer::Group*> groups;
  if (answer.groups) {
    for (const Answer::Group& group : *answer.groups) {
      if (!group.id.empty()) groups.emplace(group.id, &group);
    }
  }
  std::map<std::string_view, const AnsweredFinding*> by_id;
  for (const AnsweredFinding& finding : answer.findings) by_id.emplace(finding.id, &finding);
  std::vector<CountedFinding> counted;
  std::set<std::string_view> done;
  for (const AnsweredFinding& finding : answer.findings) {
    const auto group = groups.find(finding.group);
    if (group == groups.end()) {
      counted.push_back({&finding, nullptr});
    } else if (done.insert(group->first).second) {
      const auto shown = by_id.find(group->second->shown);
      counted.push_back({shown == by_id.end() ? &finding : shown->second, group->second});
    }
  }
  return counted;
}

}  // namespace ttrace::answer
