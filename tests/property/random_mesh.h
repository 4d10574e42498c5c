// Random meshes and shapes, small ones mostly.
#pragma once

#include <algorithm>
#include <string>

#include "property/random_numbers.h"
#include "trace/manifest.h"

namespace ttrace::test {

inline std::uint64_t size_of(const trace::Mesh& mesh) {
  std::uint64_t size = 1;
  for (const trace::MeshAxis& axis : mesh.axes) size *= axis.size;
  return size;
}

// Up to 4 axes and 64 coordinates; perhaps a table of ranks, shuffled and with gaps.
inline trace::Mesh random_mesh(Random& random) {
  trace::Mesh mesh;
  std::uint64_t room = random.chance(0.1) ? 64 : random.chance(0.5) ? 16 : 6;
  const std::uint64_t axes = random.between(random.chance(0.1) ? 0 : 1, 4);
  for (std::uint64_t a = 0; a < axes; ++a) {
    const std::uint64_t most = std::min<std::uint64_t>(room, 6);
    const std::uint64_t size =
        random.chance(0.4) ? std::min<std::uint64_t>(most, 2) : random.between(1, most);
    // Names in another order than the axes: a placement's place is the mesh's to say.
    mesh.axes.push_back({std::string(1, "dbca"[a]), size});
    room /= size;
  }
  if (random.chance(0.5)) return mesh;
  const std::uint64_t size = size_of(mesh);
  for (std::uint64_t i = 0; i < size; ++i) mesh.ranks.push_back(3 * i + 1);
  shuffle(random, mesh.ranks);
  return mesh;
}

// Up to 4 dimensions and about 100 elements; extents 0 and 1 now and then, and often ones that many
// numbers divide, so that axes leave one extent everywhere and later ones may give numbers for it.
inline tensor::Shape random_shape(Random& random) {
  tensor::Shape shape;
  std::uint64_t room = 100;
  const bool even = random.chance(0.5);
  const std::uint64_t dimensions = random.between(random.chance(0.1) ? 0 : 1, 4);
  for (std::uint64_t d = 0; d < dimensions; ++d) {
    std::uint64_t extent = random.between(2, d == 0 ? 24 : 9);
    if (even) extent = d == 0 ? 12 * random.between(1, 3) : 4;
    if (random.chance(0.1)) extent = random.chance(0.3) ? 0 : 1;
    extent = std::min(extent, room);
    shape.push_back(extent);
    room /= std::max<std::uint64_t>(extent, 1);
  }
  shuffle(random, shape);
  return shape;
}

}  // namespace ttrace::test
