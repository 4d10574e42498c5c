#include "mapping/longer_tensors.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/message.h"
#include "comparison/padding.h"
#include "layout/map_rules.h"

namespace ttrace::mapping {
namespace {

// The name under which the trace has the tensor, or nothing if the view is made of several.
std::optional<std::string> own_name(const layout::ViewPtr& view) {
  const std::vector<const trace::TensorEntry*> stored = layout::stored_in(*view);
  return stored.size() == 1 ? std::optional(stored.front()->key.name) : std::nullopt;
}

// A tensor that one side has longer than the other, and the rule that would trim it.
struct Longer {
  comparison::Excess excess;
  layout::MapRule rule;
};

// Whether it can be written as a pattern, which has no escape for braces.
bool is_plain(const std::string& name) { return name.find_first_of("{}") == std::string::npos; }

std::string describe(const std::string& name, const Longer& longer, bool in_use) {
  const comparison::Excess& excess = longer.excess;
  return base::render(
      {in_use ? "{name} has {longer} in the {side} where the other side has {shorter} in dimension "
                "{dim}: no padding, since the rest carries a gradient"
              : "{name} has {longer} in the {side} where the other side has {shorter} in dimension "
                "{dim}; if the rest is padding, this rule of the {side}, in place of any other for "
                "that name, leaves it out: {rule}",
       {{"name", name},
        {"longer", excess.longer},
        {"side", excess.of_candidate ? "candidate" : "reference"},
        {"shorter", excess.shorter},
        {"dim", std::uint64_t{excess.dim}},
        {"rule", layout::map_rule_text(longer.rule)}}});
}

}  // namespace

std::vector<std::string> notes_on_longer(const trace::Source& reference,
                                         const trace::Source& candidate,
                                         const std::vector<trace::Module>& modules,
                                         const std::vector<comparison::Pair>& pairs) {
  std::vector<comparison::Pair> trimmed = pairs;
  const comparison::Padding padding =
      comparison::trim_padding(reference, candidate, modules, trimmed);
  std::vector<std::string> notes;
  std::map<std::string, Longer> found;  // by name
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const trace::TensorKey& key = pairs[i].key;
    const auto excess = comparison::excess_of(pairs[i]);
    if (!excess || (padding.in_doubt.empty() && !comparison::excess_of(trimmed[i]))) continue;
    if (const auto refused = padding.refused.find(key); refused != padding.refused.end()) {
      notes.push_back(refused->second.told);
      continue;
    }
    const auto own = own_name(excess->of_candidate ? pairs[i].candidate : pairs[i].reference);
    if (!own || !is_plain(*own) || !is_plain(key.name)) continue;
    Longer& longer = found.try_emplace(key.name, Longer{*excess, {}}).first->second;
    layout::MapRule& rule = longer.rule;
    rule.from = {layout::NamePattern(*own)};
    rule.to = {layout::NamePattern(key.name)};
    rule.trim = layout::Resize{longer.excess.dim, longer.excess.shorter};
    if (std::find(rule.kinds.begin(), rule.kinds.end(), key.kind) == rule.kinds.end()) {
      rule.kinds.push_back(key.kind);
    }
  }
  for (const auto& [name, longer] : found) {
    const bool in_use = std::any_of(
        padding.in_use.begin(), padding.in_use.end(),
        [&longer](const auto& parameter) { return parameter.second.is_like(longer.excess); });
    notes.push_back(describe(name, longer, in_use));
  }
  return notes;
}

}  // namespace ttrace::mapping
