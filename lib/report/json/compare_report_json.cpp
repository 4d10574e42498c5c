#include "report/json/compare_report_json.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/message.h"
#include "comparison/coverage.h"
#include "localize/microbatch_mismatch.h"
#include "localize/other_start.h"
#include "localize/phase.h"
#include "report/answer_text.h"
#include "report/coverage_clauses.h"
#include "report/finding_groups.h"
#include "report/headline.h"
#include "report/json/report_text_json.h"
#include "report/json/result_json.h"
#include "report/json/run_json.h"

namespace ttrace::report {
namespace {

using judge::Outcome;

constexpr std::size_t kMostSlices = 4;
constexpr std::size_t kMostOfGroupInFull = 16;
constexpr std::size_t kMostShardRanks = 4096;  // of one finding's shards
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

template <typename Range, typename ToJson>
json first_ones(const Range& items, ToJson to_json, std::size_t most = kMostNeighbours) {
  json out = json::array();
  for (const auto& item : items) {
    if (out.size() == most) break;
    out.push_back(to_json(item));
  }
  return out;
}

// Adds the evidence of a finding. `refer` writes a reference to a result.
template <typename Refer>
void add_evidence(const comparison::ComparedFinding& finding,
                  const comparison::TensorComparison& result, Refer refer, json& out) {
  if (!finding.one_sided_group.empty()) {
    out[result.outcome == Outcome::kExtra ? "extra_group" : "missing_group"] =
        finding.one_sided_group;
  }
  out["members"] = first_ones(finding.members, refer, kAll);
  out["phase"] = phase_name(localize::phase_of(result.key));
  out["source"] = {{"class", finding.class_name}, {"called_at", finding.called_at}};
  out["ranks"] = finding.ranks;
  out["where"] = finding.where;
  if (!finding.parts.empty()) out["parts"] = finding.parts;
  if (!finding.values.empty()) out["values"] = finding.values;
  out["merged"] = finding.merged;
  out["replica_classes"] = json::array();
  if (result.outcome == Outcome::kReplicaConflict) {
    out["replica_classes"] = result.comparison->measurement.replicas->classes;
  }
  out["depends_on"] = first_ones(finding.depends_on, refer);
  out["downstream"] = first_ones(finding.downstream, refer);
  out["downstream_total"] = finding.downstream.size();
  out["causes"] = causes_json(finding.causes);
  if (!finding.rejected.empty()) out["rejected"] = rejected_json(finding.rejected);
  if (!finding.record_next.empty()) out["record_next"] = finding.record_next;
}

// Writes the objects of a report that refer to others by id.
class References {
 public:
  explicit References(const comparison::CompareReport& report)
      : report_(report), groups_(group_findings(report)), headlines_(report) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const std::size_t f : groups_[g].findings) {
        group_of_[f] = g;
        if (is_in_full(f)) in_full_.insert(report.findings[f].result);
      }
    }
  }

  bool in_full(const comparison::TensorComparison& result) const {
    return in_full_.contains(static_cast<std::size_t>(&result - report_.results.data()));
  }

  const std::vector<FindingGroup>& groups() const { return groups_; }

  std::string id(std::size_t result) const { return id_of(report_.results[result].key); }

  // The id of the group for a missing module, which has no result.
  std::string id_of_finding(std::size_t finding) const {
    const comparison::ComparedFinding& found = report_.findings[finding];
    return found.members.size() > 1 ? groups_[group_of_.at(finding)].id : id(found.result);
  }

  json finding(std::size_t index) const {
    const comparison::ComparedFinding& finding = report_.findings[index];
    const comparison::TensorComparison& result = report_.results[finding.result];
    const FindingGroup& group = groups_[group_of_.at(index)];
    json out{{"id", id_of_finding(index)}};
    if (!group.title.empty()) out["group"] = group.id;
    if (group.title.empty()) out["headline"] = headlines_.of(group);
    out["outcome"] = outcome_name(result.outcome);
    if (!is_in_full(index)) return out;
    const auto refer = [this](std::size_t i) { return id(i); };
    add_evidence(finding, result, refer, out);
    if (index == group.shown) {
      const json shards = shards_json(result, kMostShardRanks);
      if (!shards.is_null()) out["shards"] = shards;
    }
    if (finding.members.size() < 2) {
      out["place"] = code_place_json(localize::place_of(report_, finding));
    }
    return out;
  }

  json setting(const comparison::SettingDifference& setting) const {
    return {{"id", id_of(setting)},
            {"headline", headlines_.of(setting)},
            {"phase", phase_name(localize::Phase::kOptimizer)},
            {"setting",
             {{"step", setting.step},
              {"name", setting.name},
              {"reference", setting.reference},
              {"candidate", setting.candidate}}},
            {"parameters",
             first_ones(setting.parameters, [](const std::string& name) { return name; })},
            {"parameters_total", setting.parameters.size()},
            {"updates", first_ones(setting.updates, [this](std::size_t i) { return id(i); })}};
  }

  std::vector<json> frontier() const {
    std::vector<json> items;
    for (const Listed& one : listed(report_, groups_)) {
      if (one.setting) {
        items.push_back(setting(report_.settings[*one.setting]));
      } else {
        for (const std::size_t f : groups_[one.group].findings) items.push_back(finding(f));
      }
    }
    return items;
  }

  json microbatches(const comparison::MicrobatchMismatch& mismatch) const {
    json out{{"step", mismatch.step},
             {"reference", mismatch.reference},
             {"candidate", mismatch.candidate}};
    for (const auto& [own, other] : mismatch.swapped) {
      out["swapped"].push_back({{"candidate", own}, {"reference", other}});
    }
    if (!mismatch.axis.empty()) out["axis"] = mismatch.axis;
    if (mismatch.shown_by) out["shown_by"] = id(*mismatch.shown_by);
    out["text"] = localize::describe_mismatch(mismatch);
    return out;
  }

  json swapped(const comparison::SwappedRuns& swapped) const {
    json out{{"reference_ranks", swapped.ranks}};
    if (swapped.disagreeing) out["disagreeing"] = id(*swapped.disagreeing);
    return out;
  }

  json group(const FindingGroup& group) const {
    json findings = json::array();
    for (const std::size_t f : group.findings) findings.push_back(id_of_finding(f));
    return {{"id", group.id},
            {"title", group.title},
            {"headline", headlines_.of(group)},
            {"shown", id_of_finding(group.shown)},
            {"findings", std::move(findings)}};
  }

  json suspect(const answer::Suspect& suspect) const {
    return {{"id", id_of(suspect.key)},
            {"used", number(suspect.used)},
            {"used_before", number(suspect.used_before)},
            {"largest_before", suspect.largest ? json(id_of(*suspect.largest)) : json(nullptr)}};
  }

 private:
  // Whether the finding is among the first of its group, or is the one that is shown.
  bool is_in_full(std::size_t finding) const {
    const FindingGroup& group = groups_[group_of_.at(finding)];
    const auto end = group.findings.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                  group.findings.size(), kMostOfGroupInFull));
    return finding == group.shown || std::binary_search(group.findings.begin(), end, finding);
  }

  const comparison::CompareReport& report_;
  std::vector<FindingGroup> groups_;
  Headlines headlines_;
  std::map<std::size_t, std::size_t> group_of_;
  std::set<std::size_t> in_full_;  // results
};

json other_start_json(const comparison::OtherStart& start) {
  json out{{"what", localize::name_of(start.what)}, {"step", start.step}, {"differ", start.differ}};
  if (start.of > 0) out["of"] = start.of;
  if (!start.microbatches.empty()) out["microbatches"] = start.microbatches;
  if (!start.rounded_to.empty()) {
    const bool candidate = start.rounded == comparison::TraceSide::kCandidate;
    out["rounded"] = {{"to", start.rounded_to}, {"side", candidate ? "candidate" : "reference"}};
  }
  if (!start.modules.empty()) out["modules"] = start.modules;
  out["text"] = base::render(localize::describe_start(start));
  return out;
}

json tolerance_with_sharpness(const comparison::CompareReport& report) {
  json tolerance = tolerance_json(report);
  json sharpness = json::array();
  for (const Sharpness& one : sharpness_of(report)) {
    sharpness.push_back({{"precision", one.precision},
                         {"tensors", one.tensors},
                         {"median", number(one.median)},
                         {"widest", number(one.widest)}});
  }
  tolerance["sharpness"] = std::move(sharpness);
  return tolerance;
}

// The results that the report has.
std::vector<const comparison::TensorComparison*> reported_results(
    const comparison::CompareReport& report, Detail detail,
    const comparison::TensorComparison* closest) {
  std::set<std::size_t> found;
  for (const comparison::ComparedFinding& finding : report.findings) {
    found.insert(finding.result);
    found.insert(finding.members.begin(), finding.members.end());
  }
  std::set<trace::TensorKey> suspected;
  for (const answer::Suspect& suspect : report.suspects) suspected.insert(suspect.key);
  std::vector<const comparison::TensorComparison*> results;
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const comparison::TensorComparison* result = &report.results[i];
    const bool wanted = detail == Detail::kAll || found.contains(i) || result == closest ||
                        suspected.contains(result->key);
    if (wanted) results.push_back(result);
  }
  return results;
}

// What was checked in numbers, and the clauses of the first line.
json coverage_json(const comparison::CompareReport& report) {
  const comparison::Coverage coverage = comparison::coverage_of(report);
  json remarks = json::array();
  for (const Clause& clause : coverage_clauses(report)) {
    remarks.push_back({{"name", clause.name},
                       {"tensors", clause.tensors},
                       {"unchecked", clause.weight == Clause::Weight::kUnchecked},
                       {"text", base::render(clause.message)}});
  }
  return {{"tensors", coverage.tensors},
          {"selected", coverage.selected},
          {"agree", coverage.agree},
          {"computed", coverage.computed},
          {"computed_unchecked", coverage.computed_unchecked},
          {"remarks", std::move(remarks)}};
}

}  // namespace

std::map<std::string, std::string> judged_by_json(const comparison::CompareReport& report) {
  // Members by name, as a reader of the report gets them.
  const nlohmann::json tolerance = tolerance_with_sharpness(report);
  std::map<std::string, std::string> members{{"tolerance", dumped(tolerance)}};
  if (!report.layout_rules.empty()) members["layout_rules"] = dumped(report.layout_rules);
  if (!report.map_rules.empty()) members["map_rules"] = dumped(report.map_rules);
  return members;
}

std::string json_text(const comparison::CompareReport& report, const JsonStyle& style) {
  const References references(report);
  ReportText text(kReportSchema);
  text.add("headline", headline_text(report, references.groups()));
  add_runs(report, tolerance_with_sharpness(report), text);
  text.add("identity", {{"reference", identity_json(report.reference)},
                        {"candidate", identity_json(report.candidate)}});
  json selection = selection_json(report.selection);
  selection["common"] = report.common;
  text.add("selection", selection);
  if (!report.dropped.empty()) {
    text.add_lines("map_dropped", report.dropped, [](const comparison::DroppedTensors& dropped) {
      return json{{"rule", dropped.rule}, {"reason", dropped.reason}, {"tensors", dropped.tensors}};
    });
  }
  if (report.left_out) {
    text.add("left_out", {{"reference", report.left_out->of_reference},
                          {"candidate", report.left_out->of_candidate}});
  }
  if (!report.kinds_in_neither.empty()) {
    json kinds = json::array();
    for (const trace::Kind kind : report.kinds_in_neither) kinds.push_back(kind_name(kind));
    text.add("kinds_in_neither", kinds);
  }
  if (!report.routers.empty()) text.add_lines("routing", report.routers, router_json);
  if (!report.kinks.empty()) text.add_lines("kinks", report.kinks, kink_json);
  if (report.microbatches) text.add("microbatches", references.microbatches(*report.microbatches));
  if (report.other_start) text.add("other_start", other_start_json(*report.other_start));
  if (report.swapped) text.add("swapped", references.swapped(*report.swapped));
  if (!report.followed.empty()) {
    text.add_lines(
        "followed_layouts", report.followed, [](const comparison::FollowedLayout& followed) {
          return json{
              {"name", followed.name}, {"rule", followed.rule}, {"tensors", followed.tensors}};
        });
  }
  text.add("frontier_from", report.from_modules ? "data_flow" : "execution_order");
  json counts = json::object();
  for (const auto& [outcome, count] : report.counts) counts[outcome_name(outcome)] = count;
  counts["total"] = report.results.size();
  text.add("counts", counts);
  text.add("coverage", coverage_json(report));
  text.add_lines("frontier", references.frontier(),
                 [](const json& item) { return nine_digits(item); });
  std::vector<FindingGroup> groups = references.groups();
  std::erase_if(groups, [](const FindingGroup& group) { return group.title.empty(); });
  text.add_lines("groups", groups,
                 [&](const FindingGroup& group) { return references.group(group); });
  text.add_lines("suspects", report.suspects,
                 [&](const answer::Suspect& suspect) { return references.suspect(suspect); });
  if (style.detail == Detail::kFindings) text.add("detail", "findings");
  const comparison::TensorComparison* closest = closest_to_limit(report);
  if (closest != nullptr) {
    text.add("closest",
             nine_digits({{"id", id_of(closest->key)},
                          {"used", number(comparison::used_share(*closest->comparison))}}));
  }
  text.add_lines("results", reported_results(report, style.detail, closest),
                 [&](const comparison::TensorComparison* one) {
                   const comparison::TensorComparison& result = *one;
                   const std::size_t slices = style.all_slices             ? kAll
                                              : references.in_full(result) ? kMostSlices
                                                                           : 0;
                   return nine_digits(result_json(result, slices));
                 });
  json environment = environment_json(report.environment);
  environment["traces"] = {{"reference", place_json(report.reference)},
                           {"candidate", place_json(report.candidate)}};
  text.add_lines("warnings", report.warnings, [](const std::string& w) { return json(w); });
  if (report.part) text.add_share(*report.part);
  text.add("environment", environment);
  return std::move(text).done();
}

}  // namespace ttrace::report
