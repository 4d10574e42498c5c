// Coordinates and ranks of a mesh, and its axes as one tensor sees them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trace/manifest.h"

namespace ttrace::layout {

// Number of coordinates (1 for a mesh without axes).
std::uint64_t mesh_size(const trace::Mesh& mesh);

// Coordinates of position `linear` in row-major order, one per axis.
std::vector<std::uint64_t> coordinates_at(const trace::Mesh& mesh, std::uint64_t linear);

// The rank at position `linear` in row-major order of the coordinates.
std::uint64_t rank_at(const trace::Mesh& mesh, std::uint64_t linear);

// Coordinates of `rank`, which must belong to the mesh.
std::vector<std::uint64_t> coordinates_of(const trace::Mesh& mesh, std::uint64_t rank);

// All ranks of all meshes, ascending.
std::vector<std::uint64_t> ranks_of(const std::map<std::string, trace::Mesh>& meshes);
std::vector<std::uint64_t> ranks_of(const trace::Manifest& manifest);

// "rank 3", "ranks {0, 7}"; of many ranks the first eight and their number.
std::string describe_ranks(const std::vector<std::uint64_t>& ranks);

// "pp 2 × tp 2", "one rank".
std::string describe_mesh(const trace::Mesh& mesh);
// All meshes by name.
std::string describe_meshes(const std::map<std::string, trace::Mesh>& meshes);

// The placement on an axis: replicated where the entry gives none.
const trace::Placement& placement_on(const trace::TensorEntry& entry, const std::string& axis);

// How a tensor is placed by rows; null if it is not.
const trace::Rows* rows_placement(const trace::TensorEntry& entry);

// A mesh axis as one tensor sees it.
struct AxisView {
  const std::string* name = nullptr;
  const trace::Placement* placement = nullptr;
  std::vector<std::uint64_t> held = {};  // the coordinates that hold the tensor, ascending
};

// One view per mesh axis, in mesh order. They point into `entry` and `mesh`.
std::vector<AxisView> axis_views(const trace::TensorEntry& entry, const trace::Mesh& mesh);

// The rank whose coordinate on the a-th axis is views[a].held[position[a]].
std::uint64_t rank_of(const std::vector<AxisView>& views, const trace::Mesh& mesh,
                      const std::vector<std::uint64_t>& position);

// Calls visit(position) for every combination of indices into the axes' `held`, in row-major order.
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

}  // namespace ttrace::layout
