#include "synth/rank_layout.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "layout/axis_view.h"
#include "layout/mesh_map.h"
#include "synth/values.h"
#include "trace/placement.h"

namespace ttrace::synth {
namespace {

const std::string* index_of(const trace::TensorEntry& entry) {
  for (const auto& [axis, placement] : entry.placements) {
    if (const auto* rows = std::get_if<trace::Rows>(&placement)) return &rows->index;
  }
  return nullptr;
}

// The entry as if every coordinate of the stage axis held it.
trace::TensorEntry without_stages(const Group& group) {
  trace::TensorEntry entry = group.entry_of(0);
  if (!group.stages.empty()) entry.held_at.erase(group.stages);
  return entry;
}

std::vector<std::int64_t> index_numbers(const Recipe& recipe, const trace::TensorKey& key,
                                        const std::vector<std::uint64_t>& coordinates) {
  for (const Group& group : recipe.groups) {
    if (group.count != 1 || group.entry_of(0).key != key) continue;
    const trace::TensorEntry entry = group.entry_of(0);
    const auto held = layout::local_layout(entry, recipe.meshes.at(entry.mesh), coordinates);
    std::vector<std::int64_t> numbers;
    const IndexRows rows(recipe.seed, dataset_path(key), entry.shape[0]);
    for (const layout::Part& part : held.value_or(layout::LocalLayout{}).parts) {
      for (std::uint64_t i = 0; i < part.global.extent[0]; ++i) {
        numbers.push_back(rows.at(part.global.origin[0] + i));
      }
    }
    return numbers;
  }
  throw base::input_error(trace::to_string(key), ": the index is not one tensor of the recipe");
}

bool same_extents(const layout::LocalLayout& a, const layout::LocalLayout& b) {
  return a.dataset_shape() == b.dataset_shape() &&
         std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(),
                    [](const layout::Part& x, const layout::Part& y) {
                      return x.local == y.local && x.global.extent == y.global.extent;
                    });
}

}  // namespace

std::optional<layout::LocalLayout> local_layout_of(const Recipe& recipe, const Group& group,
                                                   const std::vector<std::uint64_t>& coordinates) {
  const trace::TensorEntry entry = without_stages(group);
  layout::RowNumbers rows;
  if (const std::string* name = index_of(entry)) {
    const trace::TensorKey key = trace::index_key(entry.key, *name);
    rows = [&, key](std::uint64_t) { return index_numbers(recipe, key, coordinates); };
  }
  return layout::local_layout(entry, recipe.meshes.at(entry.mesh), coordinates, rows);
}

std::optional<std::pair<layout::LocalLayout, layout::LocalLayout>> shards_to_swap(
    const Recipe& recipe, const Group& group) {
  const trace::Mesh& mesh = recipe.meshes.at(group.entry.mesh);
  std::vector<layout::LocalLayout> seen;
  for (std::uint64_t i = 0; i < layout::mesh_size(mesh); ++i) {
    auto held = local_layout_of(recipe, group, layout::coordinates_at(mesh, i));
    if (!held || held->parts.empty()) continue;
    for (const layout::LocalLayout& other : seen) {
      if (other != *held && same_extents(other, *held)) return std::pair{other, *std::move(held)};
    }
    if (std::find(seen.begin(), seen.end(), *held) == seen.end()) seen.push_back(*std::move(held));
  }
  return std::nullopt;
}

std::optional<DroppedTerm> dropped_term(const trace::Mesh& mesh, const trace::TensorEntry& entry) {
  const std::vector<layout::AxisView> views = layout::axis_views(entry, mesh);
  for (std::size_t a = 0; a < views.size(); ++a) {
    const auto* partial = std::get_if<trace::Partial>(views[a].placement);
    if (partial == nullptr || partial->reduction == trace::Reduction::kMax) continue;
    if (views[a].held.size() > 1) return DroppedTerm{a, views[a].held.back()};
  }
  return std::nullopt;
}

std::optional<std::uint64_t> stored_bytes(const Recipe& recipe) {
  std::optional<std::uint64_t> sum = 0;
  const auto add = [&sum](std::uint64_t bytes, std::uint64_t times) {
    const auto product = base::checked_mul(bytes, times);
    sum = sum && product ? base::checked_add(*sum, *product) : std::nullopt;
  };
  for (const Group& group : recipe.groups) {
    const trace::Mesh& mesh = recipe.meshes.at(group.entry.mesh);
    for (std::uint64_t i = 0; i < layout::mesh_size(mesh) && sum; ++i) {
      const std::vector<std::uint64_t> at = layout::coordinates_at(mesh, i);
      std::uint64_t tensors = group.count;
      for (std::size_t a = 0; a < at.size(); ++a) {
        if (mesh.axes[a].name == group.stages) {
          tensors = group.first_at(at[a] + 1) - group.first_at(at[a]);
        }
      }
      const auto held = tensors == 0 ? std::nullopt : local_layout_of(recipe, group, at);
      if (!held) continue;
      const auto bytes = tensor::byte_count(held->dataset_shape(), group.entry.dtype);
      bytes ? add(*bytes, tensors) : sum.reset();
    }
  }
  return sum;
}

}  // namespace ttrace::synth
