#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/text.h"
#include "localize/causes/cause.h"

namespace ttrace::localize {
namespace {

constexpr std::size_t kMostLayersNamed = 8;

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "pp 1", or nothing for what all ranks hold.
std::string stage_of(const trace::TensorEntry& entry) {
  std::string text;
  for (const auto& [axis, held] : entry.held_at) {
    if (held.size() != 1) continue;
    text += base::concat(text.empty() ? "" : ", ", axis, " ", held.front());
  }
  for (const auto& [axis, placement] : entry.placements) {
    const auto* only = std::get_if<trace::Only>(&placement);
    if (only == nullptr) continue;
    text += base::concat(text.empty() ? "" : ", ", axis, " ", only->coordinate);
  }
  return text;
}

}  // namespace

std::vector<Cause> find_missing_layer(const std::string& group, const trace::Source& candidate) {
  const std::string name = group.substr(0, group.find(' '));
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos || !number(std::string_view(name).substr(dot + 1))) return {};
  const std::string prefix = name.substr(0, dot + 1);
  std::map<std::uint64_t, std::set<std::string>> stages;  // of the other layers
  for (const trace::TensorEntry& entry : candidate.manifest().tensors) {
    if (!entry.key.name.starts_with(prefix)) continue;
    const std::string_view rest = std::string_view(entry.key.name).substr(prefix.size());
    const auto layer = number(rest.substr(0, rest.find_first_of(".[")));
    if (layer) stages[*layer].insert(stage_of(entry));
  }
  if (stages.empty()) return {};
  std::string text;
  std::size_t named = 0;
  for (const auto& [layer, where] : stages) {
    if (++named > kMostLayersNamed) break;
    std::string at;
    for (const std::string& one : where) {
      if (!one.empty()) at += base::concat(at.empty() ? "" : " and ", one);
    }
    if (named > 1) text += ", ";
    text += base::render({"{layer} on {where}",
                          {{"layer", base::concat(prefix, layer)},
                           {"where", at.empty() ? base::render({"all ranks", {}}) : at}}});
  }
  const std::uint64_t layers = stages.size();
  if (layers > kMostLayersNamed) {
    text = base::render(
        {"{named} and {more} more", {{"named", text}, {"more", layers - kMostLayersNamed}}});
  }
  return {answer::cause_of(
      "missing_layer", "",
      {"no rank has {layer}; there are {others}", {{"layer", name}, {"others", text}}}, 0,
      {{"layers_there", layers}})};
}

}  // namespace ttrace::localize
