#include <nlohmann/json.hpp>

#include "report/json/report_text_json.h"
#include "report/nights/diff_text.h"

namespace ttrace::report {
namespace {

json optional_number(const std::optional<double>& value) {
  return value ? number(*value) : json(nullptr);
}

json night_json(const Night& night) {
  json out{{"file", night.file},
           {"verdict", night.verdict},
           {"headline", night.headline},
           {"tensors", night.tensors.size()},
           {"whole", night.whole}};
  if (!night.recorded_at.empty()) out["recorded_at"] = night.recorded_at;
  if (!night.commit.empty()) out["commit"] = night.commit;
  if (!night.expired.empty()) out["expired"] = night.expired;
  return out;
}

json changed_json(const ChangedTensor& tensor) {
  json out{{"id", tensor.id},
           {"was", tensor.was},
           {"is", tensor.is},
           {"used_before", optional_number(tensor.used_before)},
           {"used_now", optional_number(tensor.used_now)}};
  if (!tensor.why.empty()) out["why"] = tensor.why;
  return out;
}

json changed_finding_json(const ChangedFinding& finding) {
  json out{{"id", finding.id},
           {"status", status_name(finding.status)},
           {"headline", finding.headline},
           {"members", finding.members},
           {"newly_diverged", finding.newly_diverged},
           {"diverged_otherwise", finding.otherwise}};
  if (!finding.before.empty()) out["before"] = finding.before;
  return out;
}

}  // namespace

std::string diff_json(const NightDiff& diff) {
  ReportText text(kDiffSchema);
  text.add("headline", diff.headline());
  text.add("verdict", diff.verdict());
  if (!diff.why.empty()) text.add("why", diff.why);
  text.add("exit_code", diff.exit_code);
  text.add("command", diff.newer.command);
  text.add("older", night_json(diff.older));
  text.add("newer", night_json(diff.newer));
  json counts{{"in_common", diff.in_common}, {"diverged_in_both", diff.diverged_in_both}};
  for (const Change change : kAllChanges) counts[change_name(change)] = diff.of(change).size();
  text.add("counts", counts);
  text.add_lines("findings", diff.findings, changed_finding_json);
  for (const Change change : kAllChanges) {
    text.add_lines(change_name(change), diff.of(change), changed_json);
  }
  text.add_lines("changed", diff.circumstances, [](const ChangedCircumstance& one) {
    return json{{"what", one.what}, {"was", one.was}, {"is", one.is}};
  });
  text.add_lines("remarks", diff.remarks, [](const std::string& one) { return json(one); });
  return std::move(text).done();
}

}  // namespace ttrace::report
