#include "layout/plan.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "layout/mesh_map.h"
#include "layout/shard.h"

namespace ttrace::layout {
namespace {

using trace::Placement;

// One mesh axis as a tensor sees it: the coordinates that hold it, and how.
struct AxisView {
  const std::string* name = nullptr;
  std::vector<std::uint64_t> held;
  Placement placement = trace::Replicate{};
};

std::vector<AxisView> axis_views(const trace::TensorEntry& entry, const trace::Mesh& mesh) {
  std::vector<AxisView> views;
  views.reserve(mesh.axes.size());
  for (const trace::MeshAxis& axis : mesh.axes) {
    AxisView view;
    view.name = &axis.name;
    if (const auto placement = entry.placements.find(axis.name);
        placement != entry.placements.end()) {
      view.placement = placement->second;
    }
    if (const auto held = entry.held_at.find(axis.name); held != entry.held_at.end()) {
      view.held = held->second;
    } else if (const auto* only = std::get_if<trace::Only>(&view.placement)) {
      view.held = {only->coordinate};
    } else {
      view.held.resize(axis.size);
      for (std::uint64_t i = 0; i < axis.size; ++i) view.held[i] = i;
    }
    views.push_back(std::move(view));
  }
  return views;
}

// Calls visit(index of each axis within its held coordinates) in row-major order.
template <typename Visit>
void for_each_position(const std::vector<AxisView>& views, Visit visit) {
  std::vector<std::uint64_t> position(views.size(), 0);
  while (true) {
    visit(position);
    std::size_t a = views.size();
    while (a > 0 && ++position[a - 1] == views[a - 1].held.size()) position[--a] = 0;
    if (a == 0) return;
  }
}

tensor::Box box_at(const trace::TensorEntry& entry, const std::vector<AxisView>& views,
                   const std::vector<std::uint64_t>& position) {
  tensor::Box box = tensor::whole(entry.shape);
  for (std::size_t a = 0; a < views.size(); ++a) {
    const auto* shard = std::get_if<trace::Shard>(&views[a].placement);
    if (shard == nullptr) continue;
    try {
      const Range range =
          shard_range(*shard, box.extent[shard->dim], views[a].held.size(), position[a]);
      box.origin[shard->dim] += range.start;
      box.extent[shard->dim] = range.length;
    } catch (const base::Error& error) {
      throw error.in(base::concat("placements/", *views[a].name));
    }
  }
  return box;
}

Combination combination_of(const std::vector<AxisView>& views) {
  Combination combination;
  bool sums = false;
  for (const AxisView& view : views) {
    const auto* partial = std::get_if<trace::Partial>(&view.placement);
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

}  // namespace

std::optional<tensor::Box> held_box(const trace::TensorEntry& entry, const trace::Mesh& mesh,
                                    const std::vector<std::uint64_t>& coordinates) {
  const std::vector<AxisView> views = axis_views(entry, mesh);
  std::vector<std::uint64_t> position(views.size());
  for (std::size_t a = 0; a < views.size(); ++a) {
    const auto found = std::find(views[a].held.begin(), views[a].held.end(), coordinates[a]);
    if (found == views[a].held.end()) return std::nullopt;
    position[a] = static_cast<std::uint64_t>(found - views[a].held.begin());
  }
  return box_at(entry, views, position);
}

Plan plan_layout(const trace::TensorEntry& entry, const trace::Mesh& mesh) {
  const std::vector<AxisView> views = axis_views(entry, mesh);
  Plan plan;
  plan.combination = combination_of(views);
  std::map<tensor::Shape, std::size_t> block_at;  // by origin: blocks are disjoint
  for_each_position(views, [&](const std::vector<std::uint64_t>& position) {
    tensor::Box global = box_at(entry, views, position);
    if (tensor::empty(global)) return;
    Piece piece;
    std::uint64_t linear = 0;
    std::uint64_t term = 0;
    for (std::size_t a = 0; a < views.size(); ++a) {
      const std::uint64_t coordinate = views[a].held[position[a]];
      piece.coordinates.push_back(coordinate);
      linear = linear * mesh.axes[a].size + coordinate;
      if (std::holds_alternative<trace::Partial>(views[a].placement)) {
        term = term * views[a].held.size() + position[a];
      }
    }
    piece.rank = rank_at(mesh, linear);
    piece.local = tensor::whole(global.extent);
    const auto [found, fresh] = block_at.emplace(global.origin, plan.blocks.size());
    if (fresh) plan.blocks.push_back({std::move(global), {}});
    std::vector<Term>& terms = plan.blocks[found->second].terms;
    if (terms.size() <= term) terms.resize(term + 1);
    terms[term].replicas.push_back(std::move(piece));
  });
  return plan;
}

std::vector<std::string> layout_problems(const trace::Manifest& manifest) {
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const trace::TensorEntry& entry = manifest.tensors[i];
    try {
      const std::vector<AxisView> views = axis_views(entry, manifest.meshes.at(entry.mesh));
      combination_of(views);
      // Only shards can contradict the shape, so the other axes stay at their first coordinate.
      std::vector<AxisView> shards = views;
      for (AxisView& view : shards) {
        if (!std::holds_alternative<trace::Shard>(view.placement)) view.held.resize(1);
      }
      for_each_position(shards, [&](const std::vector<std::uint64_t>& position) {
        box_at(entry, shards, position);
      });
    } catch (const base::Error& error) {
      problems.push_back(base::concat("/tensors/", i, "/", error.what(), " (", to_string(entry.key),
                                      ", shape ", tensor::to_string(entry.shape), ")"));
    }
  }
  return problems;
}

}  // namespace ttrace::layout
