#include "report/nights/night.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/bytes.h"
#include "base/error.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "comparison/coverage.h"
#include "report/page/page_answer.h"
#include "report/page/read_answer.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::JsonCursor;

// What two nights never have in common, and what says nothing.
constexpr std::array<std::string_view, 5> kNeverAlike{"path", "run", "recorded at", "took",
                                                      "computed by"};

// Adds what the commands were told: which tensors, and what judged them.
void add_request(const JsonCursor& root, Night& night) {
  night.circumstances.emplace_back("selection", root.require("selection").text());
  if (const auto tolerance = root.find("tolerance")) {
    night.circumstances.emplace_back("tolerance", tolerance->require("rule").as_string());
    night.circumstances.emplace_back("number of noise runs",
                                     concat(tolerance->require("noise_runs").items().size()));
  }
}

void add_circumstances(const PageAnswer& answer, Night& night) {
  const auto add = [&night](const std::string& name, const std::string& value) {
    night.circumstances.emplace_back(name, value);
  };
  for (const PageRun& run : answer.runs) {
    const std::string of = run.role == "run" ? "" : concat(" of the ", run.role);
    for (const auto& [label, value] : run.facts) {
      const bool never =
          std::find(kNeverAlike.begin(), kNeverAlike.end(), label) != kNeverAlike.end();
      if (!never) add(label + of, value);
      if (run.role == "reference") continue;
      if (label == "recorded at") night.recorded_at = value;
      if (label == "commit") night.commit = value;
    }
  }
  for (const auto& [label, value] : answer.made_by) {
    if (label == "ttrace") add(label, value);
  }
}

// Adds how much was checked, as far as the report says it in numbers.
void add_checked(const JsonCursor& root, Night& night) {
  if (const auto compared = root.find("comparison")) {  // of localize
    std::uint64_t checked = 0;
    night.checked_of_kind.emplace();
    for (const JsonCursor& one : compared->require("kinds").items()) {
      const auto kind = trace::parse_kind(one.require("kind").as_text());
      if (!kind) continue;
      const std::uint64_t count = one.require("checked").as_count();
      (*night.checked_of_kind)[*kind] += count;
      checked += comparison::is_computed(*kind) ? count : 0;
    }
    night.checked = checked;
    return;
  }
  const JsonCursor coverage = root.require("coverage");
  const auto computed = coverage.find("computed");
  if (!computed) {
    night.checked = coverage.require("judged").as_count();
    return;
  }
  const std::uint64_t unchecked = coverage.require("computed_unchecked").as_count();
  night.checked = computed->as_count() - std::min(computed->as_count(), unchecked);
}

// A report whose list was cut says nothing of what it lacks.
void require_all_listed(const JsonCursor& root, const PageAnswer& answer) {
  const auto counts = root.find("counts");
  if (!answer.has_all_tensors || !counts || answer.command != "compare") return;
  const JsonCursor total = counts->require("total");
  if (total.as_count() == answer.tensors.size()) return;
  throw total.error("is not the number of results, ", answer.tensors.size(),
                    "; make the report again with --json");
}

Fate fate_of(const PageTensor& tensor) {
  if (tensor.alarming || tensor.known) return Fate::kWrong;
  return is_right(tensor.outcome) ? Fate::kRight : Fate::kUnchecked;
}

// Adds to the tensors that are wrong why and how far they are.
void add_why(const JsonCursor& root, Night& night) {
  std::map<std::string, Evidence> evidence = evidence_of(root);
  const std::set<std::string> suspects = suspects_of(root);
  for (NightTensor& tensor : night.tensors) {
    if (tensor.fate != Fate::kWrong) continue;
    tensor.furthest = tensor.used;
    tensor.suspect = suspects.contains(tensor.id);
    if (const auto found = evidence.find(tensor.id); found != evidence.end()) {
      tensor.evidence = std::move(found->second);
    }
  }
  const auto results = root.find("results");
  if (!results) return;
  for (const JsonCursor& result : results->items()) {
    const auto found = night.index_of.find(result.require("id").as_text());
    if (found == night.index_of.end()) continue;
    NightTensor& tensor = night.tensors[found->second];
    if (tensor.fate != Fate::kWrong) continue;
    if (const auto furthest = furthest_use(result)) tensor.furthest = furthest;
    tensor.one_sided = is_finite_on_one_side(result);
  }
}

}  // namespace

const NightTensor* Night::find(const std::string& id) const {
  const auto found = index_of.find(id);
  return found == index_of.end() ? nullptr : &tensors[found->second];
}

Night read_night(std::string_view text, const std::string& file) {
  const base::JsonDocument document(text, file);
  PageAnswer answer = read_page_answer(document.root());
  Night night;
  night.file = file;
  night.command = answer.command;
  if (night.command == "diff" || night.command == "trend") {
    throw document.root().require("schema").error(
        "is what `ttrace report ", night.command,
        "` wrote; give a report of `ttrace compare`, audit or localize");
  }
  night.verdict = answer.verdict;
  night.headline = answer.headline;
  night.whole = answer.has_all_tensors && answer.command != "localize";
  add_circumstances(answer, night);
  add_request(document.root(), night);
  add_checked(document.root(), night);
  require_all_listed(document.root(), answer);
  night.ranks = answer.mesh.empty() ? 0 : 1;
  for (const PageMeshAxis& axis : answer.mesh) {
    if (base::checked_mul(night.ranks, axis.size)) night.ranks *= axis.size;
  }
  if (const auto known = document.root().find("known")) {
    for (const JsonCursor& one : known->items()) {
      if (one.require("state").as_text() != "expired") continue;
      night.expired.push_back(one.require(one.find("id") ? "id" : "pattern").as_string());
    }
  }
  std::map<std::string, const PageFinding*> found;  // by their members
  for (PageFinding& finding : answer.findings) {
    const bool setting = finding.id.starts_with("setting:");
    if (setting || finding.members.empty()) finding.members = {finding.id};
    for (const std::string& member : finding.members) found.emplace(member, &finding);
    night.findings.push_back({finding.id, finding.title, finding.members});
  }
  night.tensors.reserve(answer.tensors.size() + found.size());
  for (PageTensor& tensor : answer.tensors) {
    NightTensor one{std::move(tensor.id)};
    one.kind = trace::parse_kind(tensor.kind);
    one.fate = fate_of(tensor);
    one.outcome = tensor.outcome;
    one.used = tensor.used;
    one.in_finding = found.erase(one.id) > 0;
    one.known = tensor.known;
    night.tensors.push_back(std::move(one));
  }
  // Settings, and all that a report of findings alone knows of them.
  for (const auto& [id, finding] : found) {
    NightTensor one{id};
    one.fate = Fate::kWrong;
    one.outcome = finding->outcome;
    one.in_finding = true;
    one.known = finding->known;
    night.tensors.push_back(std::move(one));
  }
  night.index_of.reserve(night.tensors.size());
  for (std::size_t i = 0; i < night.tensors.size(); ++i) {
    if (night.index_of.emplace(night.tensors[i].id, i).second) continue;
    throw base::input_error(file, ": has ", base::printable(night.tensors[i].id),
                            " twice; make it again with --json");
  }
  add_why(document.root(), night);
  return night;
}

}  // namespace ttrace::report
