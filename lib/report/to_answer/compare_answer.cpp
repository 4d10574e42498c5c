#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/message.h"
#include "comparison/coverage.h"
#include "localize/microbatch_mismatch.h"
#include "localize/other_start.h"
#include "localize/phase.h"
#include "report/answer_text.h"
#include "report/coverage_clauses.h"
#include "report/finding_groups.h"
#include "report/headline.h"
#include "report/to_answer/parts.h"
#include "report/to_answer/to_answer.h"

namespace ttrace::report {
namespace {

using answer::Answer;
using answer::AnsweredFinding;
using judge::Outcome;

constexpr std::size_t kMostSlices = 4;
constexpr std::size_t kMostOfGroupInFull = 16;
constexpr std::size_t kMostShardRanks = 4096;  // of one finding's shards
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

// Makes what refers to tensors by their ids.
class Told {
 public:
  explicit Told(const comparison::CompareReport& report)
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

  const std::vector<FindingGroup>& all_groups() const { return groups_; }

  std::vector<AnsweredFinding> findings() const {
    std::vector<AnsweredFinding> items;
    for (const Listed& one : listed(report_, groups_)) {
      if (one.setting) {
        items.push_back(setting(report_.settings[*one.setting]));
      } else {
        for (const std::size_t f : groups_[one.group].findings) items.push_back(finding(f));
      }
    }
    return items;
  }

  std::vector<Answer::Group> groups() const {
    std::vector<Answer::Group> out;
    for (const FindingGroup& group : groups_) {
      if (group.title.empty()) continue;
      Answer::Group told{
          group.id, group.title, headlines_.of(group), id_of_finding(group.shown), {}};
      for (const std::size_t f : group.findings) told.findings.push_back(id_of_finding(f));
      out.push_back(std::move(told));
    }
    return out;
  }

  Answer::Microbatches microbatches(const comparison::MicrobatchMismatch& mismatch) const {
    Answer::Microbatches out{
        mismatch.step, mismatch.reference, mismatch.candidate, {}, mismatch.axis, {}, {}};
    for (const auto& [own, other] : mismatch.swapped) out.swapped.push_back({own, other});
    if (mismatch.shown_by) out.shown_by = id(*mismatch.shown_by);
    out.text = localize::describe_mismatch(mismatch);
    return out;
  }

  Answer::SwappedRuns swapped(const comparison::SwappedRuns& swapped) const {
    Answer::SwappedRuns out{swapped.ranks, {}};
    if (swapped.disagreeing) out.disagreeing = id(*swapped.disagreeing);
    return out;
  }

 private:
  std::string id(std::size_t result) const { return id_of(report_.results[result].key); }

  std::vector<std::string> ids(const std::vector<std::size_t>& results,
                               std::size_t most = kMostNeighbours) const {
    std::vector<std::string> out;
    for (const std::size_t result : results) {
      if (out.size() == most) break;
      out.push_back(id(result));
    }
    return out;
  }

  // The id of the group for a missing module, which has no result.
  std::string id_of_finding(std::size_t finding) const {
    const comparison::ComparedFinding& found = report_.findings[finding];
    return found.members.size() > 1 ? groups_[group_of_.at(finding)].id : id(found.result);
  }

  AnsweredFinding finding(std::size_t index) const {
    const comparison::ComparedFinding& finding = report_.findings[index];
    const comparison::TensorComparison& result = report_.results[finding.result];
    const FindingGroup& group = groups_[group_of_.at(index)];
    AnsweredFinding out;
    out.id = id_of_finding(index);
    if (!group.title.empty()) out.group = group.id;
    if (group.title.empty()) out.headline = headlines_.of(group);
    out.outcome = outcome_name(result.outcome);
    if (!is_in_full(index)) return out;
    add_evidence(finding, result, out);
    if (index == group.shown) out.shards = shards_of(result, kMostShardRanks);
    if (finding.members.size() < 2) out.place = place_told(localize::place_of(report_, finding));
    return out;
  }

  void add_evidence(const comparison::ComparedFinding& finding,
                    const comparison::TensorComparison& result, AnsweredFinding& out) const {
    out.one_sided = finding.one_sided_group;
    out.members = ids(finding.members, kAll);
    out.phase = phase_name(localize::phase_of(result.key));
    out.source = {finding.class_name, finding.called_at};
    out.ranks = finding.ranks;
    out.where = finding.where;
    out.parts = finding.parts;
    out.values = finding.values;
    out.merged = finding.merged;
    out.replica_classes.emplace();
    if (result.outcome == Outcome::kReplicaConflict) {
      out.replica_classes = result.comparison->measurement.replicas->classes;
    }
    out.depends_on = ids(finding.depends_on);
    out.downstream = ids(finding.downstream);
    out.downstream_total = finding.downstream.size();
    out.causes = told_causes(finding.causes);
    if (!finding.rejected.empty()) out.rejected = finding.rejected;
    out.record_next = finding.record_next;
  }

  AnsweredFinding setting(const comparison::SettingDifference& setting) const {
    AnsweredFinding out;
    out.id = id_of(setting);
    out.headline = headlines_.of(setting);
    out.outcome = "setting";
    out.phase = phase_name(localize::Phase::kOptimizer);
    out.setting = {setting.step, setting.name, setting.reference, setting.candidate};
    const std::size_t some = std::min(setting.parameters.size(), kMostNeighbours);
    out.parameters.assign(setting.parameters.begin(),
                          setting.parameters.begin() + static_cast<std::ptrdiff_t>(some));
    out.parameters_total = setting.parameters.size();
    out.members = ids(setting.updates);
    return out;
  }

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

Answer::OtherStart other_start_of(const comparison::OtherStart& start) {
  Answer::OtherStart out;
  out.what = localize::name_of(start.what);
  out.step = start.step;
  out.differ = start.differ;
  out.of = start.of;
  out.microbatches = start.microbatches;
  if (!start.rounded_to.empty()) {
    const bool candidate = start.rounded == comparison::TraceSide::kCandidate;
    out.rounded = {start.rounded_to, candidate ? "candidate" : "reference"};
  }
  out.modules = start.modules;
  out.text = base::render(localize::describe_start(start));
  return out;
}

Answer::Router router_of(const comparison::RouterFlips& router) {
  Answer::Router out{
      router.key,    router.tokens, router.experts,     router.flipped, router.unexplained,
      router.scores, router.noise,  router.largest_gap, router.follows, {}};
  if (router.unexplained > 0) out.first_unexplained = {router.first_unexplained, router.why};
  return out;
}

Answer::Kink kink_of(const comparison::KinkFlips& kink) {
  return {kink.key,       kink.argument, kink.elements, kink.flipped, kink.at_limits,
          kink.at_maxima, kink.noise,    kink.largest,  kink.moved};
}

// The results that the answer has.
std::vector<const comparison::TensorComparison*> told_results(
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
Answer::Coverage coverage_of_comparison(const comparison::CompareReport& report) {
  const comparison::Coverage coverage = comparison::coverage_of(report);
  Answer::Coverage out;
  out.tensors = coverage.tensors;
  out.selected = coverage.selected;
  out.agree = coverage.agree;
  out.computed = coverage.computed;
  out.computed_unchecked = coverage.computed_unchecked;
  out.remarks.emplace();
  for (const Clause& clause : coverage_clauses(report)) {
    out.remarks->push_back({std::string(clause.name), clause.tensors,
                            clause.weight == Clause::Weight::kUnchecked,
                            base::render(clause.message)});
  }
  return out;
}

Answer::Counts counts_of(const comparison::CompareReport& report) {
  Answer::Counts counts;
  for (const auto& [outcome, count] : report.counts) {
    counts.emplace(outcome_name(outcome), count);
  }
  counts.emplace("total", report.results.size());
  return counts;
}

// What the runs are, and where they do not go together.
void add_runs(const comparison::CompareReport& report, const Told& told, Answer& out) {
  out.reference = run_of(report.reference);
  out.candidate = run_of(report.candidate);
  out.identity = {identity_of(report.reference), identity_of(report.candidate), {}};
  out.tolerance = tolerance_of(report);
  out.layout_rules = report.layout_rules;
  out.map_rules = report.map_rules;
  out.selection = selected_of(report.selection, report.common);
  for (const comparison::DroppedTensors& dropped : report.dropped) {
    out.map_dropped.push_back({dropped.rule, dropped.reason, dropped.tensors});
  }
  if (report.left_out)
    out.left_out = {report.left_out->of_reference, report.left_out->of_candidate};
  for (const trace::Kind kind : report.kinds_in_neither) {
    out.kinds_in_neither.emplace_back(kind_name(kind));
  }
  for (const comparison::RouterFlips& router : report.routers) {
    out.routing.push_back(router_of(router));
  }
  for (const comparison::KinkFlips& kink : report.kinks) out.kinks.push_back(kink_of(kink));
  if (report.microbatches) out.microbatches = told.microbatches(*report.microbatches);
  if (report.other_start) out.other_start = other_start_of(*report.other_start);
  if (report.swapped) out.swapped = told.swapped(*report.swapped);
  for (const comparison::FollowedLayout& followed : report.followed) {
    out.followed_layouts.push_back({followed.name, followed.rule, followed.tensors});
  }
}

}  // namespace

Answer::Tolerance tolerance_of(const comparison::CompareReport& report) {
  Answer::Tolerance out{report.noise_runs.empty() ? "fallback" : "noise",
                        report.noise_runs,
                        report.tolerance_file,
                        {}};
  for (const Sharpness& one : sharpness_of(report)) {
    out.sharpness.push_back({std::string(one.precision), one.tensors, one.median, one.widest});
  }
  return out;
}

Answer to_answer(const comparison::CompareReport& report, const AnswerStyle& style) {
  const Told told(report);
  Answer out;
  out.command = "compare";
  out.verdict = comparison::kCompareWords.of(report.verdict);
  out.headline = headline_text(report, told.all_groups());
  out.why = report.why;
  out.besides = report.besides;
  out.exit_code = static_cast<std::uint64_t>(answer::exit_code(report.verdict));
  add_runs(report, told, out);
  out.frontier_from = report.from_modules ? "data_flow" : "execution_order";
  out.counts = counts_of(report);
  out.coverage = coverage_of_comparison(report);
  out.findings = told.findings();
  out.groups = told.groups();
  out.suspects.emplace();
  for (const answer::Suspect& suspect : report.suspects) {
    Answer::Suspect one{id_of(suspect.key), suspect.used, suspect.used_before, {}, {}, {}, {}};
    if (suspect.largest) one.largest_before = id_of(*suspect.largest);
    out.suspects->push_back(std::move(one));
  }
  if (style.detail == Detail::kFindings) out.detail = "findings";
  const comparison::TensorComparison* closest = closest_to_limit(report);
  if (closest != nullptr) {
    out.closest = {id_of(closest->key), comparison::used_share(*closest->comparison)};
  }
  out.results.emplace();
  for (const comparison::TensorComparison* one : told_results(report, style.detail, closest)) {
    const std::size_t slices = style.all_slices ? kAll : told.in_full(*one) ? kMostSlices : 0;
    out.results->push_back(tensor_of(*one, slices));
  }
  out.warnings = report.warnings;
  if (report.part) out.part = told_part(*report.part);
  out.environment = environment_of(report.environment);
  out.environment.traces = {files_of(report.reference), files_of(report.candidate), {}};
  return out;
}

}  // namespace ttrace::report
