#include <nlohmann/json.hpp>

#include "layout/map_rules.h"

namespace ttrace::layout {
namespace {

using Json = nlohmann::ordered_json;

Json names_json(const std::vector<NamePattern>& patterns) {
  if (patterns.size() == 1) return patterns.front().text();
  Json names = Json::array();
  for (const NamePattern& pattern : patterns) names.push_back(pattern.text());
  return names;
}

void add_kinds(const MapRule& rule, Json& out) {
  if (rule.kinds.empty()) return;
  Json kinds = Json::array();
  for (const trace::Kind kind : rule.kinds) kinds.push_back(kind_name(kind));
  out["kind"] = kinds.size() == 1 ? kinds.front() : kinds;
}

Json rule_json(const MapRule& rule) {
  Json out{{"from", names_json(rule.from)}, {"to", names_json(rule.to)}};
  add_kinds(rule, out);
  if (rule.same) out["same"] = true;
  if (!rule.same && (rule.from.size() > 1 || rule.to.size() > 1)) {
    Json cut{{"dim", rule.dim}};
    if (rule.groups != 1) cut["groups"] = rule.groups;
    if (!rule.sizes.empty()) cut["sizes"] = rule.sizes;
    out[rule.from.size() > 1 ? "concat" : "split"] = std::move(cut);
  }
  if (rule.trim) out["trim"] = {{"dim", rule.trim->dim}, {"size", rule.trim->size}};
  if (!rule.transpose.empty()) out["transpose"] = rule.transpose;
  return out;
}

Json unmatched_json(const MapRule& rule) {
  Json out{{"drop", names_json(rule.from)}};
  add_kinds(rule, out);
  out["reason"] = "";
  return out;
}

std::string dumped(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename Items, typename ToJson>
std::string lines(const Items& items, const char* indent, ToJson to_json) {
  std::string text = "[";
  bool first = true;
  for (const auto& item : items) {
    text += first ? "\n" : ",\n";
    text += std::string(indent) + "  " + dumped(to_json(item));
    first = false;
  }
  return text + (first ? "]" : "\n" + std::string(indent) + "]");
}

}  // namespace

std::string map_rule_text(const MapRule& rule) { return dumped(rule_json(rule)); }

std::string map_file_text(const MapFile& file) {
  const auto as_is = [](const std::string& text) { return Json(text); };
  std::string text = "{\n  \"schema\": \"ttrace.map/2\"";
  const auto add = [&text](const std::string& name, const std::string& value) {
    text += ",\n  \"" + name + "\": " + value;
  };
  if (!file.reference.empty()) add("reference", lines(file.reference, "  ", rule_json));
  add("candidate", lines(file.candidate, "  ", rule_json));
  add("unmatched",
      "{\n    \"reference\": " + lines(file.unmatched_reference, "    ", unmatched_json) +
          ",\n    \"candidate\": " + lines(file.unmatched_candidate, "    ", unmatched_json) +
          "\n  }");
  add("ambiguous", lines(file.ambiguous, "  ", [](const auto& one) {
        return Json{{"reference", one.first}, {"candidate", one.second}};
      }));
  add("notes", lines(file.notes, "  ", as_is));
  return text + "\n}\n";
}

}  // namespace ttrace::layout
