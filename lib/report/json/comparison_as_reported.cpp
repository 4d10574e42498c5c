#include "report/json/comparison_as_reported.h"

#include <algorithm>
#include <utility>

#include "base/message.h"
#include "base/text.h"
#include "localize/other_start.h"
#include "localize/place.h"
#include "report/finding_groups.h"
#include "report/headline.h"
#include "report/json/compare_report_json.h"
#include "report/page/page_answer.h"

namespace ttrace::report {
namespace {

using comparison::ComparedFinding;
using comparison::CompareReport;
using localize::LocalizedFinding;
using localize::ReportedComparison;

class AsReported {
 public:
  explicit AsReported(const CompareReport& report)
      : report_(report), groups_(group_findings(report)), headlines_(report) {}

  void add_findings(ReportedComparison& out) const {
    for (const Listed& one : listed(report_, groups_)) {
      if (one.setting) {
        out.findings.push_back(setting(report_.settings[*one.setting]));
        continue;
      }
      const FindingGroup& group = groups_[one.group];
      const std::vector<trace::TensorKey> keys = keys_of(group);
      out.frontier.insert(out.frontier.end(), keys.begin(), keys.end());
      out.findings.push_back(finding(group));
    }
  }

 private:
  LocalizedFinding setting(const comparison::SettingDifference& setting) const {
    LocalizedFinding out;
    out.id = id_of(setting);
    out.members = {out.id};
    out.headline = headlines_.of(setting);
    out.outcome = "setting";
    out.title = setting_title(setting.name, setting.parameters.size(), setting.reference,
                              setting.candidate);
    return out;
  }

  LocalizedFinding finding(const FindingGroup& group) const {
    const ComparedFinding& shown = report_.findings[group.shown];
    LocalizedFinding out;
    static_cast<answer::Finding&>(out) = shown;
    for (answer::Cause& cause : out.causes) {
      cause.fits = nullptr;  // a report does not have it
      // A reader of JSON gets members by name.
      std::sort(cause.values.begin(), cause.values.end());
    }
    out.headline = headlines_.of(group);
    out.outcome = outcome_name(report_.results[shown.result].outcome);
    out.keys = keys_of(group);
    out.ranks = ranks_of(report_, group);
    if (is_of_one_side(shown)) {
      out.id = group.id;
      out.title = base::concat(out.outcome, ": ", shown.one_sided_group);
      out.members = ids_of(shown.members);
    } else {
      out.shown = report_.results[shown.result].key;
      out.id = id_of(*out.shown);
      out.title = group.title;
      for (const trace::TensorKey& key : out.keys) out.members.push_back(id_of(key));
      out.place = localize::place_of(report_, shown);
    }
    out.depends_on = ids_of(shown.depends_on);
    out.depends_on.resize(std::min(out.depends_on.size(), kMostNeighbours));
    out.downstream = shown.downstream.size();
    return out;
  }

  // Whether it stands for several tensors that are missing or extra together.
  static bool is_of_one_side(const ComparedFinding& finding) { return finding.members.size() > 1; }

  // The keys of the findings of a group that are about a single tensor.
  std::vector<trace::TensorKey> keys_of(const FindingGroup& group) const {
    std::vector<trace::TensorKey> keys;
    for (const std::size_t f : group.findings) {
      const ComparedFinding& finding = report_.findings[f];
      if (!is_of_one_side(finding)) keys.push_back(report_.results[finding.result].key);
    }
    return keys;
  }

  std::vector<std::string> ids_of(const std::vector<std::size_t>& results) const {
    std::vector<std::string> ids;
    for (const std::size_t result : results) ids.push_back(id_of(report_.results[result].key));
    return ids;
  }

  const CompareReport& report_;
  std::vector<FindingGroup> groups_;
  Headlines headlines_;
};

void add_results(const CompareReport& report, ReportedComparison& out) {
  out.tensors = report.results.size();
  for (const comparison::TensorComparison& result : report.results) {
    const std::string_view outcome = outcome_name(result.outcome);
    localize::CheckedTensors& kind = out.kinds[std::string(kind_name(result.key.kind))];
    ++kind.tensors;
    kind.checked += was_checked(outcome) ? 1 : 0;
    if (result.outcome == judge::Outcome::kSkippedByRule) ++out.skipped;
    if (result.outcome == judge::Outcome::kMatch) continue;
    out.outcomes.emplace(id_of(result.key), outcome);
    if (judge::is_bad(result.outcome)) out.bad.push_back(result.key);
  }
}

}  // namespace

std::string setting_title(std::string_view name, std::uint64_t parameters,
                          std::string_view reference, std::string_view candidate) {
  return base::concat(name, " of ", parameters, " parameters: reference ", reference,
                      ", candidate ", candidate);
}

ReportedComparison as_reported(const CompareReport& report, std::string file) {
  ReportedComparison out;
  out.file = std::move(file);
  out.verdict = comparison::kCompareWords.of(report.verdict);
  out.exit_code = answer::exit_code(report.verdict);
  out.why = report.why;
  out.besides = report.besides;
  out.reference = report.reference;
  out.candidate = report.candidate;
  out.selection = report.selection;
  out.common = report.common;
  out.layout_rules = report.layout_rules;
  for (const comparison::FollowedLayout& followed : report.followed) {
    out.followed_layouts.push_back(followed.rule);
  }
  out.judged_by = judged_by_json(report);
  if (report.part) out.part = report.part->number;
  if (report.other_start) {
    out.other_start = base::render(localize::describe_start(*report.other_start));
  }
  AsReported(report).add_findings(out);
  for (const answer::Suspect& suspect : report.suspects) {
    out.suspects.push_back({suspect.key, suspect.used, suspect.used_before, std::nullopt});
  }
  out.warnings = report.warnings;
  add_results(report, out);
  return out;
}

}  // namespace ttrace::report
