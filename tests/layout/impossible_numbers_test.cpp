// Sizes, segments and strides that contradict the tensor or no machine could hold.
#include "layout/problems_of.h"

namespace ttrace::layout::impossible_numbers_test {
namespace {

using test::check_problem;
using test::make_mesh;
using test::placed;
using test::problems_of;
using trace::Segments;
using trace::Shard;
using trace::Strided;
using trace::Zigzag;

const trace::Mesh kTwo = make_mesh({{"tp", 2}});
constexpr std::uint64_t kMost = ~std::uint64_t{0};
constexpr std::uint64_t kHuge = std::uint64_t{1} << 40;

TEST_CASE("sizes that do not add up are reported with both sums") {
  check_problem(kTwo, placed({4}, {{"tp", Shard{0, {{1, 2}}}}}), "placements/tp",
                {"add up to 3", "there are 4 elements", "shape [4]"});
  check_problem(kTwo, placed({4}, {{"tp", Shard{0, {{3, 2}}}}}), "placements/tp",
                {"add up to 5", "there are 4 elements"});
  check_problem(kTwo, placed({4}, {{"tp", Shard{0, {{kMost, 2}}}}}), "placements/tp",
                {"sizes overflow 64 bits"});
}

TEST_CASE("lists of another length than the axis are reported with both numbers") {
  check_problem(kTwo, placed({4}, {{"tp", Shard{0, {{4}}}}}), "placements/tp",
                {"1 shard sizes for 2 coordinates"});
  check_problem(kTwo, placed({4}, {{"tp", Segments{0, {4}, 1, {{{2, 1, 1}}}}}}), "placements/tp",
                {"3 parts of a segment for 2 coordinates"});
  trace::TensorEntry held = placed({4}, {{"tp", Shard{0, {{2, 2}}}}});
  held.held_at = {{"tp", {1}}};
  check_problem(kTwo, held, "placements/tp", {"2 shard sizes for 1 coordinates"});
}

TEST_CASE("segments that do not add up are reported with both sums") {
  check_problem(kTwo, placed({8}, {{"tp", Segments{0, {4, 3}, 1, {}}}}), "placements/tp",
                {"segments add up to 7", "there are 8 elements"});
  check_problem(kTwo, placed({8}, {{"tp", Segments{0, {2, 1}, 3, {}}}}), "placements/tp",
                {"segments add up to 9", "there are 8 elements"});
  check_problem(kTwo, placed({8}, {{"tp", Segments{0, {4, 4}, 1, {{{2, 2}, {2, 1}}}}}}),
                "placements/tp", {"add up to 3", "there are 4 elements"});
}

TEST_CASE("segments that overflow are reported") {
  check_problem(kTwo, placed({8}, {{"tp", Segments{0, {kMost, 9}, 1, {}}}}), "placements/tp",
                {"segments overflow 64 bits"});
  check_problem(kTwo, placed({8}, {{"tp", Segments{0, {8}, kMost, {}}}}), "placements/tp",
                {"segments overflow 64 bits"});
  check_problem(kTwo, placed({8}, {{"tp", Segments{0, {8}, 1, {{{kMost, 9}}}}}}), "placements/tp",
                {"overflow 64 bits"});
}

TEST_CASE("a million million segments are refused at once") {
  check_problem(kTwo, placed({kHuge}, {{"tp", Segments{0, {1}, kHuge, {}}}}), "placements/tp",
                {"1099511627776 times", "more than 1048576"});
  check_problem(kTwo, placed({8}, {{"tp", Segments{0, {1}, kHuge, {}}}}), "placements/tp",
                {"add up to 1099511627776", "there are 8 elements"});
}

TEST_CASE("huge dimensions are cut at once where few parts are made of them") {
  const std::uint64_t half = std::uint64_t{1} << 62;
  for (const trace::Placement& placement :
       {trace::Placement{Shard{0, std::nullopt}}, trace::Placement{Zigzag{0}},
        trace::Placement{Strided{0, 1000}}, trace::Placement{Shard{0, {{half - 1, 1}}}},
        trace::Placement{Segments{0, {half / 2}, 2, {}}}}) {
    CAPTURE(to_string(placement));
    CHECK(problems_of(kTwo, placed({half}, {{"tp", placement}})).empty());
    CHECK(plan_layout(placed({half}, {{"tp", placement}}), kTwo).blocks.size() == 2);
  }
}

TEST_CASE("a stride beyond a small dimension is no contradiction") {
  // Chunks of one element, the first coordinate's part of each.
  const trace::TensorEntry entry = placed({3}, {{"tp", Strided{0, kMost}}});
  CHECK(problems_of(kTwo, entry).empty());
  CHECK(local_layout(entry, kTwo, {0})->shape == tensor::Shape{3});
  CHECK(local_layout(entry, kTwo, {1})->shape == tensor::Shape{0});
}

TEST_CASE("a million million chunks of a stride are refused at once") {
  for (const std::uint64_t extent : {kHuge, std::uint64_t{1} << 62}) {
    CAPTURE(extent);
    check_problem(kTwo, placed({extent}, {{"tp", Strided{0, extent}}}), "placements/tp",
                  {"stride of", "more than 1048576 chunks"});
  }
}

TEST_CASE("segments that are none are refused") {
  check_problem(kTwo, placed({0}, {{"tp", Segments{0, {}, 1, {}}}}), "placements/tp",
                {"there are no segments"});
}

TEST_CASE("millions of boxes are refused by the check as by the plan") {
  const trace::Mesh mesh = make_mesh({{"a", 2}, {"b", 2}});
  // 2048 × 1024 boxes on each of the 4 ranks, every one small enough by its own axis.
  const trace::TensorEntry entry =
      placed({4096, 2048}, {{"a", Strided{0, 2048}}, {"b", Strided{1, 1024}}});
  check_problem(mesh, entry, "placements", {"more than 4194304 separate boxes"});
  test::check_refused([&] { plan_layout(entry, mesh); }, {"separate boxes"});
  // Fewer than that on each rank, but more on all of them.
  const trace::Mesh large = make_mesh({{"a", 4}, {"b", 4}});
  const trace::TensorEntry spread =
      placed({4096, 4096}, {{"a", Strided{0, 1024}}, {"b", Strided{1, 512}}});
  check_problem(large, spread, "placements", {"more than 4194304 separate boxes"});
}

TEST_CASE("numbers must fit what every coordinate of the earlier axes has left") {
  const trace::Mesh mesh = make_mesh({{"a", 2}, {"b", 2}});
  const Shard even{0, std::nullopt};
  // 5 is 3 + 2: what fits the first does not fit the second.
  check_problem(mesh, placed({5}, {{"a", even}, {"b", Shard{0, {{1, 2}}}}}), "placements/b",
                {"add up to 3", "there are 2 elements"});
  check_problem(mesh, placed({5}, {{"a", even}, {"b", Segments{0, {2, 1}, 1, {}}}}), "placements/b",
                {"add up to 3", "there are 2 elements"});
  check_problem(mesh, placed({5}, {{"a", Zigzag{0}}, {"b", Shard{0, {{2, 1}}}}}), "placements/b",
                {"add up to 3", "there are 2 elements"});
}

}  // namespace
}  // namespace ttrace::layout::impossible_numbers_test
