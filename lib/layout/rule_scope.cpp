#include "layout/rule_scope.h"

#include <algorithm>

#include "base/nearest.h"
#include "base/number_text.h"

namespace ttrace::layout {

std::vector<std::string> one_or_more(const base::JsonCursor& rule, std::string_view key) {
  const base::JsonCursor value = rule.require(key);
  if (value.is_string()) return {value.as_string()};
  std::vector<std::string> values;
  for (const base::JsonCursor& item : value.items()) values.push_back(item.as_string());
  if (values.empty()) throw value.error("expected at least one");
  return values;
}

std::vector<trace::Kind> kinds_of(const base::JsonCursor& rule) {
  const auto value = rule.find("kind");
  if (!value) return {};
  std::vector<trace::Kind> kinds;
  for (const std::string& name : one_or_more(rule, "kind")) {
    const auto kind = trace::parse_kind(name);
    if (!kind) {
      std::vector<std::string> known;
      for (const trace::Kind each : trace::kAllKinds) known.emplace_back(kind_name(each));
      throw value->error("unknown kind \"", base::printable(name), "\"",
                         base::nearest_hint(name, known));
    }
    kinds.push_back(*kind);
  }
  return kinds;
}

bool is_of(const std::vector<trace::Kind>& kinds, trace::Kind kind) {
  return kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

}  // namespace ttrace::layout
