#include "layout/mesh_map.h"

#include <algorithm>
#include <set>

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
  std::set<std::uint64_t> ranks;
  for (const auto& [name, mesh] : meshes) {
    const std::uint64_t size = mesh_size(mesh);
    for (std::uint64_t i = 0; i < size; ++i) ranks.insert(rank_at(mesh, i));
  }
  return {ranks.begin(), ranks.end()};
}

std::vector<std::uint64_t> ranks_of(const trace::Manifest& manifest) {
  return ranks_of(manifest.meshes);
}

}  // namespace ttrace::layout
