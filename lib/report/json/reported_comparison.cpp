#include "report/json/reported_comparison.h"

#include <charconv>
#include <map>
#include <set>

#include "base/strict_json.h"
#include "base/text.h"
#include "report/json/compare_report_json.h"
#include "report/json/comparison_as_reported.h"
#include "report/json/read_findings.h"
#include "report/localize_report.h"
#include "report/page/page_answer.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

using base::JsonCursor;
using localize::LocalizedFinding;
using localize::ReportedComparison;

std::uint64_t number_of(std::string_view text, const JsonCursor& id) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw id.error("\"", base::printable(text), "\" is no number of an id");
  }
  return value;
}

// "0/-/main_grad/fc.weight/0/0"; nothing of a group or a setting.
std::optional<trace::TensorKey> key_of_id(const JsonCursor& id) {
  const std::string text = id.as_string();
  if (text.starts_with("group:") || text.starts_with("setting:")) return std::nullopt;
  std::vector<std::size_t> slashes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '/') slashes.push_back(i);
  }
  constexpr std::size_t kFields = 6;
  if (slashes.size() + 1 < kFields) {
    throw id.error("\"", base::printable(text), "\" is no id of a tensor");
  }
  // The name may hold slashes, the other fields do not.
  const std::size_t copy = slashes[slashes.size() - 1];
  const std::size_t call = slashes[slashes.size() - 2];
  const std::string_view view = text;
  trace::TensorKey key;
  key.step = number_of(view.substr(0, slashes[0]), id);
  const std::string_view microbatch = view.substr(slashes[0] + 1, slashes[1] - slashes[0] - 1);
  if (microbatch != "-") key.microbatch = number_of(microbatch, id);
  const std::string_view kind = view.substr(slashes[1] + 1, slashes[2] - slashes[1] - 1);
  const auto parsed = trace::parse_kind(kind);
  if (!parsed) throw id.error("\"", base::printable(kind), "\" is no kind");
  key.kind = *parsed;
  key.name = text.substr(slashes[2] + 1, call - slashes[2] - 1);
  key.call = number_of(view.substr(call + 1, copy - call - 1), id);
  key.copy = number_of(view.substr(copy + 1), id);
  return key;
}

answer::TraceFacts facts_from(const JsonCursor& cursor) {
  answer::TraceFacts facts;
  facts.path = cursor.require("path").as_string();
  facts.ranks = cursor.require("ranks").as_count();
  for (const JsonCursor& step : cursor.require("steps").items())
    facts.steps.push_back(step.as_count());
  facts.precision = cursor.require("precision").as_string();
  if (const auto ranks = cursor.find("mesh_ranks")) facts.mesh_ranks = ranks->as_counts();
  return facts;
}

// Adds what identifies a trace; a report of traces without files has none.
void add_identity(const JsonCursor& root, const std::string& role, answer::TraceFacts& facts) {
  const JsonCursor found = root.require("identity").require(role);
  if (found.is_null()) return;
  facts.run_id = found.require("run_id").as_string();
  facts.fingerprint.bytes = found.require("bytes").as_count();
  facts.fingerprint.manifest = found.require("manifest").as_string();
  facts.fingerprint.content = found.require("content").as_string();
  for (const auto& [name, value] : found.members()) {
    const bool known =
        name == "run_id" || name == "bytes" || name == "manifest" || name == "content";
    if (!known && value.is_string()) facts.recorded.emplace_back(name, value.as_string());
  }
}

comparison::Selection selection_from(const JsonCursor& cursor) {
  comparison::Selection selection;
  selection.only = cursor.require("only").as_strings();
  selection.skip = cursor.require("skip").as_strings();
  const JsonCursor kinds = cursor.require("kind");
  for (const std::string& name : kinds.as_strings()) {
    const auto kind = trace::parse_kind(name);
    if (!kind) throw kinds.error("\"", base::printable(name), "\" is no kind");
    selection.kinds.push_back(*kind);
  }
  for (const JsonCursor& step : cursor.require("step").items()) {
    selection.steps.push_back(step.as_count());
  }
  return selection;
}

// Adds what was compared of the traces.
void add_extent(const JsonCursor& root, ReportedComparison& reported) {
  const JsonCursor selection = root.require("selection");
  reported.selection = selection_from(selection);
  reported.common = selection.require("common").as_bool();
  if (const auto rules = root.find("layout_rules")) reported.layout_rules = rules->as_string();
  for (const char* member : {"tolerance", "layout_rules", "map_rules"}) {
    if (const auto found = root.find(member)) reported.judged_by.emplace(member, found->text());
  }
  const JsonCursor counts = root.require("counts");
  reported.tensors = counts.require("total").as_count();
  reported.skipped = counts.require("skipped_by_rule").as_count();
  if (const auto part = root.find("part")) {
    reported.part = {part->require("index").as_count(), part->require("of").as_count()};
  }
}

// A whole number is written without a point, as it was.
base::Message::Value value_from(const JsonCursor& cursor) {
  if (cursor.is_string()) return cursor.as_string();
  const bool whole = cursor.text().find_first_not_of("0123456789") == std::string::npos;
  if (whole) return cursor.as_count();
  return cursor.as_number();
}

std::vector<answer::Cause> causes_from(const JsonCursor& cursor) {
  std::vector<answer::Cause> causes;
  for (const JsonCursor& item : cursor.items()) {
    answer::Cause cause;
    cause.name = item.require("name").as_string();
    const JsonCursor axis = item.require("axis");
    if (!axis.is_null()) cause.axis = axis.as_string();
    cause.evidence = item.require("evidence").as_string();
    cause.unexplained = number_from(item.require("unexplained"));
    if (const auto values = item.find("values")) {
      for (const auto& [name, value] : values->members()) {
        cause.values.emplace_back(name, value_from(value));
      }
    }
    causes.push_back(std::move(cause));
  }
  return causes;
}

std::vector<answer::RejectedCause> rejected_from(const JsonCursor& cursor) {
  std::vector<answer::RejectedCause> rejected;
  for (const JsonCursor& item : cursor.items()) {
    rejected.push_back(
        {item.require("name").as_string(), number_from(item.require("unexplained"))});
  }
  return rejected;
}

localize::Place place_from(const JsonCursor& cursor) {
  using localize::PlaceKind;
  const JsonCursor kind = cursor.require("kind");
  for (const PlaceKind one : {PlaceKind::kModule, PlaceKind::kBetween, PlaceKind::kSynchronisation,
                              PlaceKind::kOptimizer}) {
    if (localize::name_of(one) == kind.as_string()) return {one, cursor.require("of").as_string()};
  }
  throw kind.error("\"", base::printable(kind.as_string()), "\" is no place");
}

LocalizedFinding finding_from(const JsonCursor& cursor) {
  LocalizedFinding finding;
  const JsonCursor id = cursor.require("id");
  finding.id = id.as_string();
  finding.members = {finding.id};
  if (const auto setting = cursor.find("setting")) {
    finding.outcome = "setting";
    finding.title = setting_title(
        setting->require("name").as_string(), cursor.require("parameters_total").as_count(),
        setting->require("reference").as_string(), setting->require("candidate").as_string());
    return finding;
  }
  finding.outcome = cursor.require("outcome").as_string();
  finding.shown = key_of_id(id);
  if (finding.shown) finding.keys = {*finding.shown};
  finding.title = finding.shown
                      ? base::concat(kind_name(finding.shown->kind), " of ", finding.shown->name)
                      : finding.id;
  for (const char* group : {"missing_group", "extra_group"}) {
    if (const auto what = cursor.find(group)) {
      finding.title = base::concat(finding.outcome, ": ", what->as_string());
    }
  }
  if (const auto members = cursor.find("members")) finding.members = members->as_strings();
  if (const auto source = cursor.find("source")) {
    finding.class_name = source->require("class").as_string();
    finding.called_at = source->require("called_at").as_string();
  }
  if (const auto place = cursor.find("place")) finding.place = place_from(*place);
  if (const auto ranks = cursor.find("ranks")) {
    for (const JsonCursor& rank : ranks->items()) finding.ranks.push_back(rank.as_count());
  }
  if (const auto where = cursor.find("where")) finding.where = where->as_string();
  if (const auto depends = cursor.find("depends_on")) finding.depends_on = depends->as_strings();
  if (const auto total = cursor.find("downstream_total")) finding.downstream = total->as_count();
  if (const auto causes = cursor.find("causes")) finding.causes = causes_from(*causes);
  if (const auto rejected = cursor.find("rejected")) finding.rejected = rejected_from(*rejected);
  return finding;
}

// The finding; where it represents a group, with the title, headline, members and
// ranks of the group.
LocalizedFinding finding_as_read(const ReadFinding& read,
                                 const std::map<std::string, std::vector<std::uint64_t>>& ranks) {
  LocalizedFinding finding = finding_from(read.item);
  finding.headline = (read.group ? *read.group : read.item).require("headline").as_string();
  if (!read.group) return finding;
  finding.title = read.group->require("title").as_string();
  const JsonCursor ids = read.group->require("findings");
  finding.members = ids.as_strings();
  finding.keys.clear();
  std::set<std::uint64_t> any;
  for (const JsonCursor& id : ids.items()) {
    if (const auto key = key_of_id(id)) finding.keys.push_back(*key);
    if (const auto of = ranks.find(id.as_string()); of != ranks.end()) {
      any.insert(of->second.begin(), of->second.end());
    }
  }
  finding.ranks.assign(any.begin(), any.end());
  return finding;
}

// Of every finding by its id.
std::map<std::string, std::vector<std::uint64_t>> ranks_of_findings(const JsonCursor& root) {
  std::map<std::string, std::vector<std::uint64_t>> found;
  for (const JsonCursor& item : root.require("frontier").items()) {
    if (!item.find("ranks")) continue;
    std::vector<std::uint64_t>& ranks = found[item.require("id").as_string()];
    for (const JsonCursor& rank : item.require("ranks").items()) ranks.push_back(rank.as_count());
  }
  return found;
}

}  // namespace

ReportedComparison parse_reported(std::string_view text, const std::string& file) {
  const base::JsonDocument document(text, file);
  const JsonCursor root = document.root();
  root.require("schema").require_format(kReportSchema, "make it with `ttrace compare --json`");
  if (const auto detail = root.find("detail"); detail && detail->as_text() == "findings") {
    throw detail->error(
        "the report holds the tensors of findings alone, and localize asks what was "
        "compared of all others; write it with --json-detail all");
  }
  ReportedComparison reported;
  reported.file = file;
  reported.verdict = root.require("verdict").as_string();
  reported.exit_code = static_cast<int>(root.require("exit_code").as_count());
  if (const auto why = root.find("why")) reported.why = why->as_string();
  if (const auto besides = root.find("besides")) reported.besides = besides->as_string();
  reported.reference = facts_from(root.require("reference"));
  reported.candidate = facts_from(root.require("candidate"));
  add_identity(root, "reference", reported.reference);
  add_identity(root, "candidate", reported.candidate);
  add_extent(root, reported);
  if (const auto start = root.find("other_start")) {
    reported.other_start = start->require("text").as_string();
  }
  if (const auto followed = root.find("followed_layouts")) {
    for (const JsonCursor& item : followed->items()) {
      reported.followed_layouts.push_back(item.require("rule").as_string());
    }
  }
  for (const JsonCursor& item : root.require("frontier").items()) {
    if (const auto key = key_of_id(item.require("id"))) reported.frontier.push_back(*key);
  }
  const auto ranks = ranks_of_findings(root);
  for (const ReadFinding& read : read_findings(root)) {
    reported.findings.push_back(finding_as_read(read, ranks));
  }
  for (const JsonCursor& item : root.require("suspects").items()) {
    const auto key = key_of_id(item.require("id"));
    if (!key) throw item.error("a suspect is a tensor");
    reported.suspects.push_back({*key, number_from(item.require("used")),
                                 number_from(item.require("used_before")), std::nullopt});
  }
  reported.warnings = root.require("warnings").as_strings();
  for (const JsonCursor& item : root.require("results").items()) {
    const std::string outcome = item.require("outcome").as_string();
    localize::CheckedTensors& kind =
        reported.kinds[item.require("key").require("kind").as_string()];
    ++kind.tensors;
    kind.checked += was_checked(outcome) ? 1 : 0;
    if (outcome == "match") continue;
    const JsonCursor id = item.require("id");
    reported.outcomes.emplace(id.as_string(), outcome);
    if (!is_bad(outcome)) continue;
    if (const auto key = key_of_id(id)) reported.bad.push_back(*key);
  }
  return reported;
}

}  // namespace ttrace::report
