#include "report/json/part_of_work_json.h"

#include <nlohmann/json.hpp>

#include "answer/answer_json.h"
#include "base/text.h"
#include "report/json/report_text_json.h"

namespace ttrace::report {
namespace {

using base::JsonCursor;
comparison::PartNumber part_number_from(const JsonCursor& part) {
  const comparison::PartNumber number{part.require("index").as_count(),
                                      part.require("of").as_count()};
  if (number.index < 1 || number.index > number.of || number.of > comparison::kMostParts) {
    throw part.error("there is no part ", number.index, " of ", number.of);
  }
  return number;
}

}  // namespace

std::string comparison_id_text(const comparison::ComparisonId& id) {
  json facts = json::array();
  for (const auto& [what, state] : id.facts) facts.push_back({what, state});
  json out{
      {"reference", id.reference}, {"candidate", id.candidate}, {"noise", id.noise},
      {"tolerance", id.tolerance}, {"layout", id.layout},       {"map", id.map},
      {"only", id.only},           {"skip", id.skip},           {"kind", id.kinds},
      {"step", id.steps},          {"common", id.common},       {"specification", id.specification},
      {"exact", id.exact}};
  if (id.localized) {
    out["localize"] = {{"candidate_specification", id.candidate_specification},
                       {"layer", id.layers},
                       {"all_layers", id.all_layers},
                       {"report", id.report}};
  }
  if (id.local_files) out["local_files"] = true;
  out["facts"] = std::move(facts);
  return dumped(out);
}

comparison::ComparisonId comparison_id_from(const JsonCursor& cursor) {
  cursor.allow_keys({"reference", "candidate", "noise", "tolerance", "layout", "map", "only",
                     "skip", "kind", "step", "common", "specification", "exact", "localize",
                     "local_files", "facts"});
  comparison::ComparisonId id;
  id.reference = cursor.require("reference").as_string();
  id.candidate = cursor.require("candidate").as_string();
  id.noise = cursor.require("noise").as_strings();
  id.tolerance = cursor.require("tolerance").as_string();
  id.layout = cursor.require("layout").as_string();
  id.map = cursor.require("map").as_string();
  id.only = cursor.require("only").as_strings();
  id.skip = cursor.require("skip").as_strings();
  id.kinds = cursor.require("kind").as_strings();
  for (const JsonCursor& step : cursor.require("step").items()) id.steps.push_back(step.as_count());
  id.common = cursor.require("common").as_bool();
  id.specification = cursor.require("specification").as_string();
  id.exact = cursor.require("exact").as_bool();
  if (const auto localize = cursor.find("localize")) {
    localize->allow_keys({"candidate_specification", "layer", "all_layers", "report"});
    id.localized = true;
    id.candidate_specification = localize->require("candidate_specification").as_string();
    id.layers = localize->require("layer").as_strings();
    id.all_layers = localize->require("all_layers").as_bool();
    id.report = localize->require("report").as_string();
  }
  if (const auto local = cursor.find("local_files")) id.local_files = local->as_bool();
  for (const JsonCursor& fact : cursor.require("facts").items()) {
    const std::vector<std::string> both = fact.as_strings();
    if (both.size() != 2) throw fact.error("expected what it is about, and what it was");
    id.facts.emplace_back(both[0], both[1]);
  }
  return id;
}

comparison::PartOfWork parse_share(std::string_view report, const std::string& file) {
  const base::JsonDocument document(report, file);
  const JsonCursor root = document.root();
  root.require("schema").require_format(answer::kAnswerSchema);
  const std::string_view command = root.require("command").as_text();
  const auto part = root.find("part");
  if (!part) {
    throw root.error("a report of all tensors; only those of --part are merged");
  }
  part->allow_keys({"index", "of", "interrupted", "comparison", "files", "measurements"});
  comparison::PartOfWork share{part_number_from(*part), part->require("interrupted").as_bool(),
                               comparison_id_from(part->require("comparison")),
                               part->require("measurements").as_strings()};
  if (share.comparison.local_files) {
    for (const auto& [path, state] : part->require("files").members()) {
      share.files.emplace(path, state.as_string());
    }
  }
  if ((command == "audit") != share.comparison.reference.empty() ||
      (command == "localize") != share.comparison.localized) {
    throw part->error("is of another command than the report");
  }
  return share;
}

}  // namespace ttrace::report
