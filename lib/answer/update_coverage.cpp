#include "answer/update_coverage.h"

#include "base/message.h"

namespace ttrace::answer {

std::string UpdateCoverage::describe() const {
  if (unjudged.empty()) return "";
  return base::render({"the updates of {unjudged} of {all:parameter} were not judged",
                       {{"unjudged", unjudged.size()}, {"all", parameters}}});
}

std::string UpdateCoverage::why_too_few() const {
  const auto few = static_cast<double>(unjudged.size());
  if (!(few > kMostUnjudgedUpdates * static_cast<double>(parameters))) return "";
  return base::render({"{updates}: {reason}", {{"updates", describe()}, {"reason", reason}}});
}

void UpdateCount::add(const std::string& parameter, bool judged, const std::string& reason) {
  bool& all = judged_.try_emplace(parameter, true).first->second;
  all = all && judged;
  if (!judged) ++reasons_[reason];
}

UpdateCoverage UpdateCount::total() const {
  UpdateCoverage coverage;
  coverage.parameters = judged_.size();
  for (const auto& [parameter, judged] : judged_) {
    if (!judged) coverage.unjudged.push_back(parameter);
  }
  std::uint64_t most = 0;
  for (const auto& [reason, updates] : reasons_) {
    if (updates <= most) continue;
    most = updates;
    coverage.reason = reason;
  }
  return coverage;
}

}  // namespace ttrace::answer
