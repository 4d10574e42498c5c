#include "report/nights/night.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/strict_json.h"
#include "base/text.h"
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
  if (const auto selection = root.find("selection")) {
    night.circumstances.emplace_back("selection", selection->text());
  }
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

Fate fate_of(const PageTensor& tensor) {
  if (tensor.alarming || tensor.known) return Fate::kWrong;
  return is_right(tensor.outcome) ? Fate::kRight : Fate::kUnchecked;
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
    const Fate fate = fate_of(tensor);
    const bool in_finding = found.erase(tensor.id) > 0;
    night.tensors.push_back(
        {std::move(tensor.id), fate, tensor.outcome, tensor.used, in_finding, tensor.known});
  }
  // Settings, and all that a report of findings alone knows of them.
  for (const auto& [id, finding] : found) {
    night.tensors.push_back(
        {id, Fate::kWrong, finding->outcome, std::nullopt, true, finding->known});
  }
  night.index_of.reserve(night.tensors.size());
  for (std::size_t i = 0; i < night.tensors.size(); ++i) {
    if (night.index_of.emplace(night.tensors[i].id, i).second) continue;
    throw base::input_error(file, ": has ", base::printable(night.tensors[i].id),
                            " twice; make it again with --json");
  }
  return night;
}

}  // namespace ttrace::report
