#include <map>
#include <nlohmann/json.hpp>

#include "localize/phase.h"
#include "report/json_report.h"
#include "report/result_json.h"

namespace ttrace::report {
namespace {

using json = nlohmann::ordered_json;
using judge::Outcome;

Outcome outcome_of(const comparison::TensorComparison& result) {
  if (result.outcome == Outcome::kNotRecorded) return Outcome::kSkippedByRule;
  if (result.outcome != Outcome::kNotJudged) return result.outcome;
  const bool compared = result.comparison && result.comparison->measurement.total.finite > 0;
  return compared ? Outcome::kBelowNoiseFloor : Outcome::kIncomparable;
}

json result_of(const comparison::TensorComparison& result) {
  json out = result_json(
      result, {outcome_name(outcome_of(result)), false, judge::SliceJudgement::kMostKept});
  out.erase("candidate_dtype");
  return out;
}

json keys_json(const std::vector<std::size_t>& indices,
               const std::vector<comparison::TensorComparison>& results) {
  json keys = json::array();
  for (const std::size_t i : indices) keys.push_back(key_json(results[i].key));
  return keys;
}

json finding_json(const comparison::Finding& finding, const comparison::CompareReport& report) {
  const comparison::TensorComparison& result = report.results[finding.result];
  json out = result_of(result);
  if (!finding.one_sided_group.empty()) {
    out[result.outcome == Outcome::kExtra ? "extra_group" : "missing_group"] =
        finding.one_sided_group;
  }
  out["members"] = keys_json(finding.members, report.results);
  out["phase"] = phase_name(localize::phase_of(result.key));
  out["source"] = {{"class", finding.class_name}, {"called_at", finding.called_at}};
  out["ranks"] = finding.ranks;
  out["where"] = finding.where;
  if (!finding.parts.empty()) out["parts"] = finding.parts;
  out["merged"] = finding.merged;
  out["replica_classes"] = json::array();
  if (result.outcome == Outcome::kReplicaConflict) {
    out["replica_classes"] = result.comparison->measurement.replicas.classes;
  }
  out["depends_on"] = keys_json(finding.depends_on, report.results);
  out["downstream"] = keys_json(finding.downstream, report.results);
  out["causes"] = causes_json(finding.causes);
  return out;
}

json counts_json(const comparison::CompareReport& report) {
  std::map<Outcome, std::uint64_t> counts;
  for (const Outcome outcome : judge::kAllOutcomes) {
    if (outcome != Outcome::kNotJudged && outcome != Outcome::kNotRecorded) counts[outcome] = 0;
  }
  for (const comparison::TensorComparison& result : report.results) ++counts[outcome_of(result)];
  json out = json::object();
  for (const auto& [outcome, count] : counts) out[outcome_name(outcome)] = count;
  out["total"] = report.results.size();
  return out;
}

}  // namespace

std::string json_text_v1(const comparison::CompareReport& report) {
  ReportText text(kReportSchema1);
  add_runs(report, tolerance_json(report), text);
  if (report.truth) text.add("truth", truth_json(report));
  if (!report.routers.empty()) text.add_lines("routing", report.routers, router_json);
  text.add("frontier_from", report.from_modules ? "data_flow" : "execution_order");
  text.add("counts", counts_json(report));
  text.add_lines("frontier", report.findings,
                 [&](const comparison::Finding& finding) { return finding_json(finding, report); });
  text.add_lines("results", report.results, result_of);
  text.add_lines("warnings", report.warnings, [](const std::string& w) { return json(w); });
  if (report.part) text.add_share(*report.part);
  add_environment(report, text);
  return std::move(text).done();
}

}  // namespace ttrace::report
