#include "layout/mesh.h"

#include <algorithm>

#include "base/error.h"

namespace ttrace::layout {

std::uint64_t mesh_size(const trace::Mesh& mesh) {
  std::uint64_t size = 1;
  for (const trace::MeshAxis& axis : mesh.axes) size *= axis.size;
  return size;
}

std::vector<std::uint64_t> coordinates_at(const trace::Mesh& mesh, std::uint64_t linear) {
  std::vector<std::uint64_t> coordinates(mesh.axes.size());
  for (std::size_t a = mesh.axes.size(); a-- > 0;) {
    coordinates[a] = linear % mesh.axes[a].size;
    linear /= mesh.axes[a].size;
  }
  return coordinates;
}

std::uint64_t rank_at(const trace::Mesh& mesh, std::uint64_t linear) {
  return mesh.ranks.empty() ? linear : mesh.ranks[linear];
}

std::vector<std::uint64_t> coordinates_of(const trace::Mesh& mesh, std::uint64_t rank) {
  if (mesh.ranks.empty()) return coordinates_at(mesh, rank);
  const auto found = std::find(mesh.ranks.begin(), mesh.ranks.end(), rank);
  if (found == mesh.ranks.end()) throw base::internal_error("rank ", rank, " is not of the mesh");
  return coordinates_at(mesh, static_cast<std::uint64_t>(found - mesh.ranks.begin()));
}

std::vector<std::uint64_t> ranks_of(const std::map<std::string, trace::Mesh>& meshes) {
  std::vector<std::uint64_t> ranks;
  for (const auto& [name, mesh] : meshes) {
    const std::size_t before = ranks.size();
    ranks.resize(before + mesh_size(mesh));
    for (std::size_t i = before; i < ranks.size(); ++i) ranks[i] = rank_at(mesh, i - before);
  }
  if (!std::is_sorted(ranks.begin(), ranks.end())) std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::vector<std::uint64_t> ranks_of(const trace::Manifest& manifest) {
  return ranks_of(manifest.meshes);
}

std::string describe_ranks(const std::vector<std::uint64_t>& ranks) {
  if (ranks.size() == 1) return base::concat("rank ", ranks[0]);
  constexpr std::size_t kMostNamed = 8;
  std::string text = "ranks {";
  for (std::size_t i = 0; i < ranks.size() && i < kMostNamed; ++i) {
    text += base::concat(i > 0 ? ", " : "", ranks[i]);
  }
  if (ranks.size() > kMostNamed) text += base::concat(", ... ", ranks.size(), " in all");
  return text + "}";
}

std::string describe_mesh(const trace::Mesh& mesh) {
  std::string text;
  for (const trace::MeshAxis& axis : mesh.axes) {
    text += base::concat(text.empty() ? "" : " × ", axis.name, " ", axis.size);
  }
  if (text.empty()) text = "one rank";
  return mesh.ranks.empty() ? text
                            : base::concat(text, " over ranks ", trace::describe_list(mesh.ranks));
}

std::string describe_meshes(const std::map<std::string, trace::Mesh>& meshes) {
  std::string text;
  for (const auto& [name, mesh] : meshes) {
    text += base::concat(text.empty() ? "" : "; ", name.empty() ? "" : base::concat(name, ": "),
                         describe_mesh(mesh));
  }
  return text;
}

const trace::Rows* rows_placement(const trace::TensorEntry& entry) {
  for (const auto& [axis, placement] : entry.placements) {
    if (const auto* rows = std::get_if<trace::Rows>(&placement)) return rows;
  }
  return nullptr;
}

const trace::Placement& placement_on(const trace::TensorEntry& entry, const std::string& axis) {
  static const trace::Placement kReplicate = trace::Replicate{};
  const auto found = entry.placements.find(axis);
  return found == entry.placements.end() ? kReplicate : found->second;
}

std::vector<AxisView> axis_views(const trace::TensorEntry& entry, const trace::Mesh& mesh) {
  std::vector<AxisView> views;
  views.reserve(mesh.axes.size());
  for (const trace::MeshAxis& axis : mesh.axes) {
    AxisView view{&axis.name, &placement_on(entry, axis.name)};
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

}  // namespace ttrace::layout
