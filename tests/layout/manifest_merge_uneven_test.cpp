// Shards and rows whose extents a rank knows of its own alone. The corpus of manifest_merge/ has
// the cases that both programs read; here are numbers that lie.
#include "layout/manifest_merge_uneven.h"

#include <limits>

#include "support/catch.h"

namespace ttrace {
namespace {

trace::Mesh two_by_two() { return {{{"dp", 2}, {"tp", 2}}, {}}; }

trace::TensorEntry cut_over_dp(trace::Placement placement) {
  trace::TensorEntry entry;
  entry.shape = {6, 4};
  entry.placements.emplace("dp", std::move(placement));
  return entry;
}

TEST_CASE("the whole of uneven shards is their sum") {
  trace::TensorEntry entry = cut_over_dp(trace::Shard{0, std::nullopt});
  const layout::ShapesByRank shapes{{0, {6, 4}}, {1, {6, 4}}, {2, {10, 4}}, {3, {10, 4}}};
  REQUIRE(layout::set_whole_extents(entry, two_by_two(), shapes));
  CHECK(entry.shape == tensor::Shape{8, 4});
  CHECK(entry.placements.at("dp") == trace::Placement{trace::Shard{0, {{3, 5}}}});
}

TEST_CASE("extents that cannot be added up leave the entry as it was") {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const trace::Placement plain = trace::Shard{0, std::nullopt};
  const auto refused = [](const trace::Placement& placement, const layout::ShapesByRank& shapes) {
    trace::TensorEntry entry = cut_over_dp(placement);
    const trace::TensorEntry before = entry;
    CHECK_FALSE(layout::set_whole_extents(entry, two_by_two(), shapes));
    CHECK(entry.shape == before.shape);
    CHECK(entry.placements == before.placements);
  };
  refused(plain, {{0, {6, 4}}, {1, {4, 4}}, {2, {10, 4}}});  // replicas of two extents
  refused(plain, {{0, {6, 4}}, {2, {9, 4}}});                // no multiple of the axis
  refused(plain, {{0, {kMost - 1, 4}}, {2, {kMost - 1, 4}}, {3, {4, 4}}});
  refused(plain, {{0, {kMost - 1, 4}}, {2, {kMost - 3, 4}}});       // the sum is no extent
  refused(plain, {{0, {6, 4}}, {7, {10, 4}}});                      // off the mesh
  refused(plain, {{0, {6, 4}}, {2, {10, 4, 1}}});                   // other dimensions
  refused(plain, {{0, {6, 4}}, {1, {10, 4}}});                      // nobody has the other half
  refused(plain, {{0, {6, 4}}, {2, {6, 5}}});                       // differ where nothing is cut
  refused(trace::Shard{0, {{2, 4}}}, {{0, {6, 4}}, {2, {10, 4}}});  // sizes are given
  refused(trace::Zigzag{0}, {{0, {6, 4}}, {2, {10, 4}}});
}

TEST_CASE("rows have the extent of their index where all ranks say both alike") {
  const trace::Mesh mesh = two_by_two();
  trace::TensorEntry index = cut_over_dp(trace::Shard{0, std::nullopt});
  const layout::ShapesByRank of_index{{0, {6}}, {2, {10}}};
  const trace::TensorEntry entry = cut_over_dp(trace::Rows{0, "i", true});
  layout::ShapesByRank shapes{{0, {6, 4}}, {2, {10, 4}}};
  layout::take_extent_of_index(entry, trace::Rows{0, "i", true}, mesh, index, of_index, shapes);
  CHECK(shapes == layout::ShapesByRank{{0, {8, 4}}, {2, {8, 4}}});
  const layout::ShapesByRank others{{0, {6, 4}}, {2, {12, 4}}};
  shapes = others;
  layout::take_extent_of_index(entry, trace::Rows{0, "i", true}, mesh, index, of_index, shapes);
  CHECK(shapes == others);
}

}  // namespace
}  // namespace ttrace
