#include <nlohmann/json.hpp>

#include "base/text.h"
#include "report/json_report.h"
#include "report/result_json.h"

namespace ttrace::report {
namespace {

using base::JsonCursor;
using json = nlohmann::ordered_json;

std::vector<std::string> strings_from(const JsonCursor& cursor) {
  std::vector<std::string> values;
  for (const JsonCursor& item : cursor.items()) values.push_back(item.as_string());
  return values;
}

comparison::PartNumber number_from(const JsonCursor& part) {
  const comparison::PartNumber number{part.require("index").as_count(),
                                      part.require("of").as_count()};
  if (number.index < 1 || number.index > number.of) {
    throw part.error("there is no part ", number.index, " of ", number.of);
  }
  return number;
}

}  // namespace

std::string comparison_id_text(const comparison::ComparisonId& id) {
  json facts = json::array();
  for (const auto& [what, state] : id.facts) facts.push_back({what, state});
  const json out{{"reference", id.reference}, {"candidate", id.candidate}, {"noise", id.noise},
                 {"tolerance", id.tolerance}, {"layout", id.layout},       {"map", id.map},
                 {"truth", id.truth},         {"only", id.only},           {"skip", id.skip},
                 {"kind", id.kinds},          {"step", id.steps},          {"common", id.common},
                 {"facts", std::move(facts)}};
  return dumped(out);
}

comparison::ComparisonId comparison_id_from(const JsonCursor& json) {
  json.allow_keys({"reference", "candidate", "noise", "tolerance", "layout", "map", "truth", "only",
                   "skip", "kind", "step", "common", "facts"});
  comparison::ComparisonId id;
  id.reference = json.require("reference").as_string();
  id.candidate = json.require("candidate").as_string();
  id.noise = strings_from(json.require("noise"));
  id.tolerance = json.require("tolerance").as_string();
  id.layout = json.require("layout").as_string();
  id.map = json.require("map").as_string();
  id.truth = json.require("truth").as_string();
  id.only = strings_from(json.require("only"));
  id.skip = strings_from(json.require("skip"));
  id.kinds = strings_from(json.require("kind"));
  for (const JsonCursor& step : json.require("step").items()) id.steps.push_back(step.as_count());
  id.common = json.require("common").as_bool();
  for (const JsonCursor& fact : json.require("facts").items()) {
    const std::vector<std::string> both = strings_from(fact);
    if (both.size() != 2) throw fact.error("expected what it is about, and what it was");
    id.facts.emplace_back(both[0], both[1]);
  }
  return id;
}

comparison::PartOfWork parse_share(std::string_view report, const std::string& file) {
  const base::JsonDocument document(report, file);
  const JsonCursor root = document.root();
  const JsonCursor schema = root.require("schema");
  if (schema.as_string() != kReportSchema) {
    throw schema.error("\"", base::printable(schema.as_string()), "\" is not \"", kReportSchema,
                       "\"");
  }
  const auto part = root.find("part");
  if (!part) {
    throw root.error("a report of all tensors; only those of `ttrace compare --part` are merged");
  }
  part->allow_keys({"index", "of", "interrupted", "comparison", "measurements"});
  return {number_from(*part), part->require("interrupted").as_bool(),
          comparison_id_from(part->require("comparison")),
          strings_from(part->require("measurements"))};
}

}  // namespace ttrace::report
