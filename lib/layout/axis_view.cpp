#include "layout/axis_view.h"

#include "base/error.h"
#include "layout/mesh_map.h"

namespace ttrace::layout {

std::vector<AxisView> axis_views(const trace::TensorEntry& entry, const trace::Mesh& mesh) {
  static const trace::Placement kReplicate = trace::Replicate{};
  std::vector<AxisView> views;
  views.reserve(mesh.axes.size());
  for (const trace::MeshAxis& axis : mesh.axes) {
    AxisView view{&axis.name, {}, &kReplicate};
    if (const auto placement = entry.placements.find(axis.name);
        placement != entry.placements.end()) {
      view.placement = &placement->second;
    }
    if (const auto held = entry.held_at.find(axis.name); held != entry.held_at.end()) {
      view.held = held->second;
    } else if (const auto* only = std::get_if<trace::Only>(view.placement)) {
      view.held = {only->coordinate};
    } else {
      view.held.resize(axis.size);
      for (std::uint64_t i = 0; i < axis.size; ++i) view.held[i] = i;
    }
    views.push_back(std::move(view));
  }
  return views;
}

std::uint64_t rank_of(const std::vector<AxisView>& views, const trace::Mesh& mesh,
                      const std::vector<std::uint64_t>& position) {
  std::uint64_t linear = 0;
  for (std::size_t a = 0; a < views.size(); ++a) {
    linear = linear * mesh.axes[a].size + views[a].held[position[a]];
  }
  return rank_at(mesh, linear);
}

Combination combination_of(const std::vector<AxisView>& views) {
  Combination combination;
  bool sums = false;
  for (const AxisView& view : views) {
    const auto* partial = std::get_if<trace::Partial>(view.placement);
    if (partial == nullptr) continue;
    if (partial->reduction == trace::Reduction::kMax) {
      combination.maximum = true;
    } else {
      sums = true;
    }
    if (partial->reduction == trace::Reduction::kMean) {
      combination.factor /= static_cast<double>(view.held.size());
    }
  }
  if (combination.maximum && sums) {
    throw base::input_error(
        "placements: a maximum over one axis and a sum or mean over another "
        "cannot be combined");
  }
  return combination;
}

}  // namespace ttrace::layout
