#include "localize/causes/replicas_along_axis.h"

#include <algorithm>

#include "base/text.h"
#include "localize/causes/separating_axes.h"

namespace ttrace::localize {

std::string CopyOfAxis::words() const { return base::concat(axis, " ", coordinate); }

measure::TensorRef at_coordinate(const measure::TensorRef& tensor, const std::string& axis,
                                 std::uint64_t coordinate) {
  const trace::Manifest& manifest = tensor.source->manifest();
  return {tensor.source, layout::with_entries(tensor.view, [&](const trace::TensorEntry& entry) {
            trace::TensorEntry changed = entry;
            const auto& axes = manifest.meshes.at(entry.mesh).axes;
            const bool known = std::any_of(axes.begin(), axes.end(), [&](const auto& one) {
              return one.name == axis && one.size > coordinate;
            });
            const auto placed = entry.placements.find(axis);
            const bool cut = placed != entry.placements.end() && trace::cuts(placed->second);
            if (!known || cut) return changed;
            changed.placements.erase(axis);
            changed.held_at[axis] = {coordinate};
            return changed;
          })};
}

std::vector<CopyOfAxis> copies_that_differ(const Case& the_case) {
  constexpr std::uint64_t kMostCoordinates = 64;
  const measure::Measurement& measurement = *the_case.measurement;
  if (!measurement.replicas_differ) return {};
  const trace::TensorEntry& part = part_that_differs(the_case.candidate, measurement.replicas);
  const auto& axes = the_case.candidate.source->manifest().meshes.at(part.mesh).axes;
  for (const std::string& name : separating_axes(the_case.candidate, measurement.replicas)) {
    const auto axis = std::find_if(axes.begin(), axes.end(),
                                   [&](const trace::MeshAxis& one) { return one.name == name; });
    if (axis->size > kMostCoordinates) continue;
    std::vector<CopyOfAxis> copies;
    const auto held = part.held_at.find(name);
    for (std::uint64_t c = 0; c < axis->size; ++c) {
      const bool holds =
          held == part.held_at.end() ||
          std::find(held->second.begin(), held->second.end(), c) != held->second.end();
      if (holds) copies.push_back({name, c, at_coordinate(the_case.candidate, name, c)});
    }
    return copies;
  }
  return {};
}

}  // namespace ttrace::localize
