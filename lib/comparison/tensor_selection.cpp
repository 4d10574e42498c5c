#include "comparison/tensor_selection.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace ttrace::comparison {
namespace {

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&name](const std::string& p) { return base::glob_match(p, name); });
}

template <typename Value>
bool contains(const std::vector<Value>& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool skipped_by(const Selection& selection, const trace::TensorKey& key) {
  const auto number = judge::rule_for(selection.rules, key);
  return number && !selection.rules[*number].skip.empty();
}

void require_pattern(const std::string& flag, const std::string& pattern,
                     const std::vector<trace::TensorKey>& keys) {
  for (const trace::TensorKey& key : keys) {
    if (base::glob_match(pattern, key.name)) return;
  }
  std::vector<std::string> names;
  for (const trace::TensorKey& key : keys) names.push_back(key.name);
  throw base::usage_error(flag, " ", base::printable(pattern), ": no tensor has such a name",
                          base::nearest_hint(pattern, names));
}

}  // namespace

bool Selection::selects_all() const {
  return only.empty() && skip.empty() && kinds.empty() && steps.empty() &&
         std::none_of(rules.begin(), rules.end(),
                      [](const auto& one) { return !one.skip.empty(); });
}

bool Selection::selects(const trace::TensorKey& key) const {
  return (only.empty() || matches_any(only, key.name)) && !matches_any(skip, key.name) &&
         (kinds.empty() || contains(kinds, key.kind)) &&
         (steps.empty() || contains(steps, key.step)) && !skipped_by(*this, key);
}

void require_matches(const Selection& selection, const std::vector<trace::TensorKey>& keys) {
  if (selection.selects_all()) return;
  for (const std::string& pattern : selection.only) require_pattern("--only", pattern, keys);
  for (const std::string& pattern : selection.skip) require_pattern("--skip", pattern, keys);
  for (const trace::Kind kind : selection.kinds) {
    if (std::none_of(keys.begin(), keys.end(), [kind](const auto& k) { return k.kind == kind; })) {
      throw base::usage_error("--kind ", kind_name(kind), ": no tensor is of this kind");
    }
  }
  for (const std::uint64_t step : selection.steps) {
    if (std::none_of(keys.begin(), keys.end(), [step](const auto& k) { return k.step == step; })) {
      throw base::usage_error("--step ", step, ": no tensor is of this step");
    }
  }
  const bool nothing = std::none_of(keys.begin(), keys.end(),
                                    [&selection](const auto& k) { return selection.selects(k); });
  if (nothing && !keys.empty()) {
    throw base::usage_error("the selection flags together leave no tensor");
  }
}

}  // namespace ttrace::comparison
