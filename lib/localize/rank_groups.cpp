#include "localize/rank_groups.h"

#include <map>

#include "base/text.h"

namespace ttrace::localize {

std::string holders_of(const layout::View& view) {
  const trace::TensorEntry& entry = *layout::stored_in(view).front();
  std::map<std::string, std::vector<std::uint64_t>> held_at = entry.held_at;
  for (const auto& [axis, placement] : entry.placements) {
    if (const auto* only = std::get_if<trace::Only>(&placement)) held_at[axis] = {only->coordinate};
  }
  std::string text;
  for (const auto& [axis, coordinates] : held_at) {
    text += base::concat(axis, ":");
    for (const std::uint64_t coordinate : coordinates) text += base::concat(coordinate, ",");
  }
  return text.empty() ? "" : base::concat(entry.mesh, "/", text);
}

}  // namespace ttrace::localize
