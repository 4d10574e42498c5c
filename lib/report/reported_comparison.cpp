#include "report/reported_comparison.h"

#include <charconv>
#include <map>
#include <set>

#include "answer/answer_json.h"
#include "answer/counted_findings.h"
#include "answer/outcomes.h"
#include "base/error.h"
#include "base/text.h"
#include "report/finding_groups.h"

namespace ttrace::report {
namespace {

using answer::Answer;
using answer::AnsweredFinding;
using base::concat;
using base::printable;
using localize::LocalizedFinding;
using localize::ReportedComparison;

std::uint64_t number_of(std::string_view text, const std::string& file) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw base::input_error(file, ": \"", printable(text), "\" is no number of an id");
  }
  return value;
}

// "0/-/main_grad/fc.weight/0/0"; nothing of a group or a setting.
std::optional<trace::TensorKey> key_of_id(const std::string& text, const std::string& file) {
  if (text.starts_with("group:") || text.starts_with("setting:")) return std::nullopt;
  std::vector<std::size_t> slashes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '/') slashes.push_back(i);
  }
  constexpr std::size_t kFields = 6;
  if (slashes.size() + 1 < kFields) {
    throw base::input_error(file, ": \"", printable(text), "\" is no id of a tensor");
  }
  // The name may hold slashes, the other fields do not.
  const std::size_t copy = slashes[slashes.size() - 1];
  const std::size_t call = slashes[slashes.size() - 2];
  const std::string_view view = text;
  trace::TensorKey key;
  key.step = number_of(view.substr(0, slashes[0]), file);
  const std::string_view microbatch = view.substr(slashes[0] + 1, slashes[1] - slashes[0] - 1);
  if (microbatch != "-") key.microbatch = number_of(microbatch, file);
  const std::string_view kind = view.substr(slashes[1] + 1, slashes[2] - slashes[1] - 1);
  const auto parsed = trace::parse_kind(kind);
  if (!parsed) throw base::input_error(file, ": \"", printable(kind), "\" is no kind");
  key.kind = *parsed;
  key.name = text.substr(slashes[2] + 1, call - slashes[2] - 1);
  key.call = number_of(view.substr(call + 1, copy - call - 1), file);
  key.copy = number_of(view.substr(copy + 1), file);
  return key;
}

answer::TraceFacts facts_of(const Answer::Run& run, const std::optional<Answer::Identity>& identity,
                            const std::optional<Answer::Files>& files) {
  answer::TraceFacts facts;
  facts.path = run.path;
  facts.ranks = run.ranks;
  for (const Answer::Axis& axis : run.mesh) facts.mesh.push_back({axis.name, axis.size});
  facts.steps = run.steps;
  facts.precision = run.precision;
  facts.mesh_ranks = run.mesh_ranks;
  if (files) facts.fingerprint.modified = files->modified;
  if (!identity) return facts;
  facts.run_id = identity->run_id;
  facts.fingerprint.bytes = identity->bytes;
  facts.fingerprint.manifest = identity->manifest;
  facts.fingerprint.content = identity->content;
  facts.recorded.assign(identity->recorded.begin(), identity->recorded.end());
  return facts;
}

comparison::Selection selection_of(const Answer::Selected& selected, const std::string& file) {
  comparison::Selection selection;
  selection.only = selected.only;
  selection.skip = selected.skip;
  for (const std::string& name : selected.kinds) {
    const auto kind = trace::parse_kind(name);
    if (!kind) throw base::input_error(file, ": \"", printable(name), "\" is no kind");
    selection.kinds.push_back(*kind);
  }
  selection.steps = selected.steps;
  return selection;
}

std::uint64_t count_of(const Answer& answer, std::string_view name) {
  if (!answer.counts) return 0;
  const auto found = answer.counts->find(name);
  return found == answer.counts->end() ? 0 : found->second;
}

localize::Place reported_place(const AnsweredFinding::Place& place, const std::string& file) {
  using localize::PlaceKind;
  for (const PlaceKind one : {PlaceKind::kModule, PlaceKind::kBetween, PlaceKind::kSynchronisation,
                              PlaceKind::kOptimizer}) {
    if (localize::name_of(one) == place.kind) return {one, place.of};
  }
  throw base::input_error(file, ": \"", printable(place.kind), "\" is no place");
}

LocalizedFinding reported_finding(const AnsweredFinding& told, const std::string& file) {
  LocalizedFinding finding;
  finding.id = told.id;
  finding.members = {told.id};
  finding.headline = told.headline;
  finding.outcome = told.outcome;
  if (const auto& setting = told.setting) {
    finding.outcome = "setting";
    finding.title =
        concat(setting->name, " of ", told.parameters_total.value_or(0), " parameters: reference ",
               setting->reference, ", candidate ", setting->candidate);
    return finding;
  }
  finding.shown = key_of_id(told.id, file);
  if (finding.shown) finding.keys = {*finding.shown};
  finding.title =
      finding.shown ? concat(kind_name(finding.shown->kind), " of ", finding.shown->name) : told.id;
  if (!told.one_sided.empty()) finding.title = concat(told.outcome, ": ", told.one_sided);
  if (told.members && !told.members->empty()) finding.members = *told.members;
  if (told.source) {
    finding.class_name = told.source->class_name;
    finding.called_at = told.source->called_at;
  }
  if (told.place) finding.place = reported_place(*told.place, file);
  if (told.ranks) finding.ranks = *told.ranks;
  finding.where = told.where;
  if (told.depends_on) finding.depends_on = *told.depends_on;
  finding.downstream = told.downstream_total.value_or(0);
  if (told.causes) finding.causes = *told.causes;
  if (told.rejected) finding.rejected = *told.rejected;
  return finding;
}

using RanksByGroup = std::map<std::string_view, std::set<std::uint64_t>>;

// The finding; where it represents a group, with the title, headline, members and ranks of the
// group.
LocalizedFinding counted_finding_of(const answer::CountedFinding& counted,
                                    const RanksByGroup& ranks, const std::string& file) {
  LocalizedFinding finding = reported_finding(*counted.finding, file);
  if (counted.group == nullptr) return finding;
  finding.title = counted.group->title;
  finding.headline = counted.group->headline;
  finding.members = counted.group->findings;
  finding.keys.clear();
  for (const std::string& id : finding.members) {
    if (const auto key = key_of_id(id, file)) finding.keys.push_back(*key);
  }
  if (const auto found = ranks.find(counted.group->id); found != ranks.end()) {
    finding.ranks.assign(found->second.begin(), found->second.end());
  } else {
    finding.ranks.clear();
  }
  return finding;
}

void add_results(const Answer& answer, const std::string& file, ReportedComparison& reported) {
  if (!answer.results) return;
  for (const answer::AnsweredTensor& tensor : *answer.results) {
    if (id_of(tensor.key) != tensor.id) {
      throw base::input_error(file, ": ", printable(tensor.id), " is not the id of its key, ",
                              id_of(tensor.key));
    }
    localize::CheckedTensors& kind = reported.kinds[std::string(kind_name(tensor.key.kind))];
    ++kind.tensors;
    kind.checked += answer::was_checked(tensor.outcome) ? 1 : 0;
    if (tensor.outcome == "match") continue;
    reported.outcomes.emplace(tensor.id, tensor.outcome);
    if (answer::is_wrong(tensor.outcome)) reported.bad.push_back(tensor.key);
  }
}

}  // namespace

ReportedComparison reported_of(const Answer& answer, const std::string& file) {
  if (answer.command != "compare" || !answer.reference || !answer.candidate) {
    throw base::input_error(file, ": is the answer of `ttrace ", printable(answer.command),
                            "`; make one with `ttrace compare --json`");
  }
  if (answer.detail == "findings") {
    throw base::input_error(file,
                            ": the report holds the tensors of findings alone, and localize asks "
                            "what was compared of all others; write it with --json-detail all");
  }
  ReportedComparison reported;
  reported.file = file;
  reported.verdict = answer.verdict;
  reported.exit_code = static_cast<int>(answer.exit_code);
  reported.why = answer.why;
  reported.besides = answer.besides;
  reported.reference =
      facts_of(*answer.reference, answer.identity.reference, answer.environment.traces.reference);
  reported.candidate =
      facts_of(*answer.candidate, answer.identity.candidate, answer.environment.traces.candidate);
  if (answer.selection) {
    reported.selection = selection_of(*answer.selection, file);
    reported.common = answer.selection->common.value_or(false);
  }
  reported.tolerance = answer.tolerance;
  reported.layout_rules = answer.layout_rules;
  reported.map_rules = answer.map_rules;
  for (const Answer::Followed& followed : answer.followed_layouts) {
    reported.followed_layouts.push_back(followed.rule);
  }
  reported.tensors = count_of(answer, "total");
  reported.skipped = count_of(answer, "skipped_by_rule");
  if (answer.part) reported.part = {answer.part->index, answer.part->of};
  if (answer.other_start) reported.other_start = answer.other_start->text;
  for (const AnsweredFinding& finding : answer.findings) {
    if (const auto key = key_of_id(finding.id, file)) reported.frontier.push_back(*key);
  }
  RanksByGroup ranks;
  for (const AnsweredFinding& finding : answer.findings) {
    if (!finding.group.empty() && finding.ranks) {
      ranks[finding.group].insert(finding.ranks->begin(), finding.ranks->end());
    }
  }
  for (const answer::CountedFinding& counted : counted_findings(answer)) {
    reported.findings.push_back(counted_finding_of(counted, ranks, file));
  }
  if (answer.suspects) {
    for (const Answer::Suspect& suspect : *answer.suspects) {
      const auto key = key_of_id(suspect.id, file);
      if (!key) throw base::input_error(file, ": ", printable(suspect.id), " is no tensor");
      reported.suspects.push_back({*key, suspect.used, suspect.used_before, std::nullopt});
      if (suspect.largest_before) {
        reported.suspects.back().largest = key_of_id(*suspect.largest_before, file);
      }
    }
  }
  reported.warnings = answer.warnings;
  add_results(answer, file, reported);
  return reported;
}

ReportedComparison parse_reported(std::string_view text, const std::string& file) {
  return reported_of(answer::read_answer(text, file), file);
}

}  // namespace ttrace::report
