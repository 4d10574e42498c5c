#include "layout/mesh.h"

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::layout::mesh_test {
namespace {

using test::make_mesh;
using Numbers = std::vector<std::uint64_t>;

TEST_CASE("a mesh without axes has one coordinate of rank 0") {
  const trace::Mesh mesh;
  CHECK(mesh_size(mesh) == 1);
  CHECK(coordinates_at(mesh, 0).empty());
  CHECK(rank_at(mesh, 0) == 0);
}

TEST_CASE("the last axis of a mesh runs fastest") {
  const trace::Mesh mesh = make_mesh({{"pp", 2}, {"dp", 3}, {"tp", 4}});
  CHECK(mesh_size(mesh) == 24);
  CHECK(coordinates_at(mesh, 0) == Numbers{0, 0, 0});
  CHECK(coordinates_at(mesh, 1) == Numbers{0, 0, 1});
  CHECK(coordinates_at(mesh, 4) == Numbers{0, 1, 0});
  CHECK(coordinates_at(mesh, 12) == Numbers{1, 0, 0});
  CHECK(coordinates_at(mesh, 23) == Numbers{1, 2, 3});
  CHECK(rank_at(mesh, 17) == 17);
}

TEST_CASE("a table of ranks is in the order of the coordinates") {
  trace::Mesh mesh = make_mesh({{"pp", 2}, {"tp", 2}});
  mesh.ranks = {6, 2, 9, 0};
  CHECK(rank_at(mesh, 0) == 6);
  CHECK(rank_at(mesh, 3) == 0);
}

TEST_CASE("the ranks of a run are those of all its meshes once and in order") {
  trace::Manifest manifest;
  manifest.meshes.emplace("", make_mesh({{"tp", 3}}));
  trace::Mesh expert = make_mesh({{"ep", 3}});
  expert.ranks = {7, 1, 4};
  manifest.meshes.emplace("expert", expert);
  CHECK(ranks_of(manifest) == Numbers{0, 1, 2, 4, 7});
}

}  // namespace
}  // namespace ttrace::layout::mesh_test
