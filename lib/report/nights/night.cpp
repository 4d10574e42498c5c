#include "report/nights/night.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "answer/answer_json.h"
#include "answer/outcomes.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"
#include "comparison/coverage.h"
#include "report/page/page_answer.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

using answer::Answer;
using base::concat;

// What two nights never have in common, and what says nothing.
constexpr std::array<std::string_view, 5> kNeverAlike{"path", "run", "recorded at", "took",
                                                      "computed by"};

// Adds what the commands were told: which tensors, and what judged them.
void add_request(const Answer& answer, Night& night) {
  if (const auto& selection = answer.selection) {
    std::vector<std::string> steps;
    for (const std::uint64_t step : selection->steps) steps.push_back(concat(step));
    std::string text;
    for (const auto& [flag, values] : {std::pair{"--only", selection->only},
                                       {"--skip", selection->skip},
                                       {"--kind", selection->kinds},
                                       {"--step", steps}}) {
      for (const std::string& value : values) {
        text += concat(text.empty() ? "" : " ", flag, " ", shell_word(value));
      }
    }
    if (selection->common.value_or(false)) text += concat(text.empty() ? "" : " ", "--common");
    night.circumstances.emplace_back("selection", text);
  }
  if (const auto& tolerance = answer.tolerance) {
    night.circumstances.emplace_back("tolerance", tolerance->rule);
    night.circumstances.emplace_back("number of noise runs", concat(tolerance->noise_runs.size()));
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

// Adds how much was checked, as far as the answer says it in numbers.
void add_checked(const Answer& answer, Night& night) {
  if (answer.comparison) {  // of localize
    std::uint64_t checked = 0;
    night.checked_of_kind.emplace();
    for (const Answer::CheckedKind& one : answer.comparison->kinds) {
      const auto kind = trace::parse_kind(one.kind);
      if (!kind) continue;
      (*night.checked_of_kind)[*kind] += one.checked;
      checked += comparison::is_computed(*kind) ? one.checked : 0;
    }
    night.checked = checked;
    return;
  }
  if (!answer.coverage) return;
  if (!answer.coverage->computed) {
    night.checked = answer.coverage->judged;
    return;
  }
  const std::uint64_t computed = *answer.coverage->computed;
  night.checked = computed - std::min(computed, answer.coverage->computed_unchecked.value_or(0));
}

// An answer whose list was cut says nothing of what it lacks.
void require_all_listed(const Answer& answer, const std::string& file) {
  if (!answer.results || !answer.counts || answer.detail == "findings") return;
  for (const auto& [name, count] : *answer.counts) {
    if (name != "total" || count == answer.results->size()) continue;
    throw base::input_error(file, ": /counts/total: is not the number of results, ",
                            answer.results->size(), "; make the report again with --json");
  }
}

Fate fate_of(const answer::AnsweredTensor& tensor) {
  if (answer::is_wrong(tensor.outcome) || tensor.known) return Fate::kWrong;
  return answer::is_right(tensor.outcome) ? Fate::kRight : Fate::kUnchecked;
}

NightTensor night_tensor(const answer::AnsweredTensor& tensor) {
  NightTensor one{tensor.id};
  one.kind = tensor.key.kind;
  one.fate = fate_of(tensor);
  one.outcome = tensor.outcome;
  one.used = tensor.used;
  one.known = tensor.known;
  if (one.fate != Fate::kWrong) return one;
  one.furthest = furthest_use(tensor);
  one.one_sided = is_finite_on_one_side(tensor);
  return one;
}

}  // namespace

const NightTensor* Night::find(const std::string& id) const {
  const auto found = index_of.find(id);
  return found == index_of.end() ? nullptr : &tensors[found->second];
}

Night night_of(const Answer& answer, const std::string& file) {
  require_all_listed(answer, file);
  const PageAnswer page = page_answer_of(answer);
  Night night;
  night.file = file;
  night.command = answer.command;
  night.verdict = answer.verdict;
  night.headline = answer.headline;
  night.whole = answer.results && answer.detail != "findings";
  add_circumstances(page, night);
  add_request(answer, night);
  add_checked(answer, night);
  night.ranks = page.mesh.empty() ? 0 : 1;
  for (const PageMeshAxis& axis : page.mesh) {
    if (base::checked_mul(night.ranks, axis.size)) night.ranks *= axis.size;
  }
  if (answer.known) {
    for (const Answer::Known& one : *answer.known) {
      if (one.state == "expired") night.expired.push_back(one.id.empty() ? one.pattern : one.id);
    }
  }
  std::map<std::string, const PageFinding*> found;  // by their members
  for (const PageFinding& finding : page.findings) {
    const bool itself = finding.outcome == "setting" || finding.members.empty();
    NightFinding one{finding.id, finding.title, finding.members};
    if (itself) one.members = {finding.id};
    for (const std::string& member : one.members) found.emplace(member, &finding);
    night.findings.push_back(std::move(one));
  }
  if (answer.results) {
    night.tensors.reserve(answer.results->size() + found.size());
    for (const answer::AnsweredTensor& tensor : *answer.results) {
      night.tensors.push_back(night_tensor(tensor));
      night.tensors.back().in_finding = found.erase(tensor.id) > 0;
    }
  }
  // Settings, and all that an answer of findings alone knows of them.
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
  std::map<std::string, Evidence> evidence = evidence_of(answer);
  const std::set<std::string> suspects = suspects_of(answer);
  for (NightTensor& tensor : night.tensors) {
    if (tensor.fate != Fate::kWrong) continue;
    tensor.suspect = suspects.contains(tensor.id);
    const auto why = evidence.find(tensor.id);
    if (why != evidence.end()) tensor.evidence = std::move(why->second);
  }
  return night;
}

Night read_night(std::string_view text, const std::string& file) {
  return night_of(answer::read_answer(text, file), file);
}

}  // namespace ttrace::report
