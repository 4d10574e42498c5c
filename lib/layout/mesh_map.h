// Coordinates and ranks of a mesh.
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

// Coordinates of `rank`, which must be of the mesh.
std::vector<std::uint64_t> coordinates_of(const trace::Mesh& mesh, std::uint64_t rank);

// All ranks of all meshes, ascending.
std::vector<std::uint64_t> ranks_of(const std::map<std::string, trace::Mesh>& meshes);
std::vector<std::uint64_t> ranks_of(const trace::Manifest& manifest);

}  // namespace ttrace::layout
