#include <nlohmann/json.hpp>

#include "base/text.h"
#include "report/json/report_text_json.h"
#include "report/nights/policy.h"

namespace ttrace::report {
namespace {

json known_json(const PolicedAnswer& policed) {
  json all = json::array();
  for (std::size_t i = 0; i < policed.known.size(); ++i) {
    const KnownDifference& known = policed.known[i];
    const KnownAnswer::Use& use = policed.by_known.uses[i];
    json one{{known.id.empty() ? "pattern" : "id", known.id.empty() ? known.pattern : known.id},
             {"file", known.file},
             {"owner", known.owner},
             {"reason", known.reason},
             {"expires", known.expires},
             {"state", state_name(use.state)},
             {"findings", use.findings}};
    if (!use.why.empty()) one["why"] = use.why;
    all.push_back(std::move(one));
  }
  return all;
}

// Marks what is excused: a finding by the number of its entry of `known`, a result by true.
void mark_excused(const PolicedAnswer& policed, json& report) {
  const KnownAnswer& known = policed.by_known;
  for (const char* list : {"frontier", "findings"}) {
    if (!report.contains(list)) continue;
    for (json& finding : report[list]) {
      const std::string id = finding.value("id", "");
      const auto member = known.members.find(id);
      const bool excused =
          known.findings.contains(id) || known.findings.contains(finding.value("group", ""));
      if (!excused) continue;
      std::size_t by = member != known.members.end() ? member->second : 0;
      const char* const members = finding.contains("keys") ? "keys" : "members";
      if (member == known.members.end() && finding.contains(members)) {
        by = known.members.at(finding[members][0].get<std::string>());
      }
      finding["known"] = by;
    }
  }
  if (!report.contains("results")) return;
  for (json& result : report["results"]) {
    const std::string id = result.value("id", "");
    if (known.members.contains(id) || known.consequences.contains(id)) result["known"] = true;
  }
}

}  // namespace

std::string policed_json(std::string_view text, const PolicedAnswer& policed) {
  json report = json::parse(text);
  report["verdict"] = policed.verdict;
  report["headline"] = policed.headline;
  report["exit_code"] = policed.exit_code;
  report.erase("why");
  mark_excused(policed, report);
  ReportText out(report["schema"].get<std::string>());
  report.erase("schema");
  if (!policed.why.empty()) out.add("why", policed.why);
  if (!policed.known.empty()) {
    out.add("but_for_known", policed.but_for_known());
    out.add_lines("known", known_json(policed).get<std::vector<json>>(),
                  [](const json& one) { return one; });
    out.add_lines("beyond_known", policed.by_known.beyond,
                  [](const std::string& one) { return json(one); });
  }
  if (!policed.required.empty()) {
    out.add_lines("required", policed.required, [](const RequiredKind& one) {
      return json{{"kind", one.kind}, {"tensors", one.tensors}, {"checked", one.checked}};
    });
  }
  if (policed.news) {
    out.add("since", {{"file", policed.news->file},
                      {"verdict", policed.news->verdict},
                      {"headline", policed.news->headline},
                      {"exit_code", policed.news->exit_code}});
  }
  for (auto& [name, value] : report.items()) {
    if (value.is_array()) {
      out.add_lines(name, value.get<std::vector<json>>(), [](const json& one) { return one; });
    } else {
      out.add(name, value);
    }
  }
  return std::move(out).done();
}

}  // namespace ttrace::report
