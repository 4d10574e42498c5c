// Boxes and flat ranges that leave a gap, overlap or lie outside.
#include "layout/problems_of.h"

namespace ttrace::layout::impossible_boxes_test {
namespace {

using tensor::Box;
using test::check_problem;
using test::make_mesh;
using test::placed;
using test::problems_of;
using trace::Boxes;
using trace::Flat;
using trace::Shard;

const trace::Mesh kTwo = make_mesh({{"tp", 2}});
constexpr std::uint64_t kMost = ~std::uint64_t{0};

trace::TensorEntry boxed(std::vector<Box> boxes) {
  return placed({4, 4}, {{"tp", Boxes{std::move(boxes)}}});
}

trace::TensorEntry flat(std::vector<Flat::Interval> ranges) {
  return placed({2, 4}, {{"tp", Flat{std::move(ranges)}}});
}

TEST_CASE("boxes that share the tensor out are sound, empty ones too") {
  CHECK(problems_of(kTwo, boxed({{{0, 0}, {3, 4}}, {{3, 0}, {1, 4}}})).empty());
  CHECK(problems_of(kTwo, boxed({{{4, 4}, {0, 0}}, {{0, 0}, {4, 4}}})).empty());
}

TEST_CASE("boxes that leave a gap are reported with the gap") {
  check_problem(kTwo, boxed({{{0, 0}, {2, 4}}, {{3, 0}, {1, 4}}}), "placements/tp",
                {"[2:3, 0:4]", "held by nobody"});
  check_problem(kTwo, boxed({{{0, 0}, {0, 4}}, {{0, 0}, {4, 3}}}), "placements/tp",
                {"[0:4, 3:4]", "held by nobody"});
}

TEST_CASE("boxes that overlap are reported with the common part and both ranks") {
  check_problem(kTwo, boxed({{{0, 0}, {2, 4}}, {{1, 0}, {3, 4}}}), "placements/tp",
                {"[1:2, 0:4]", "tp 0 (rank 0)", "tp 1 (rank 1)"});
  // As many elements as the tensor has, but not each once.
  check_problem(kTwo, boxed({{{0, 0}, {2, 4}}, {{1, 0}, {2, 4}}}), "placements/tp",
                {"[1:2, 0:4]", "tp 0 (rank 0)", "tp 1 (rank 1)"});
}

TEST_CASE("boxes that end outside are reported with their number and the dimension") {
  check_problem(kTwo, boxed({{{0, 0}, {2, 4}}, {{2, 0}, {3, 4}}}), "placements/tp",
                {"box 1", "offset [2, 0] size [3, 4]", "dimension 0", "4 elements"});
  check_problem(kTwo, boxed({{{0, 5}, {4, 0}}, {{0, 0}, {4, 4}}}), "placements/tp",
                {"box 0", "dimension 1", "4 elements"});
  check_problem(kTwo, boxed({{{0, 0}, {4, 4}}, {{kMost, 0}, {2, 4}}}), "placements/tp",
                {"box 1", "dimension 0"});
  check_problem(kTwo, boxed({{{0, 0}, {4, 4}}, {{1, 0}, {kMost, 4}}}), "placements/tp",
                {"box 1", "dimension 0"});
}

TEST_CASE("more or fewer boxes or ranges than coordinates are reported with both numbers") {
  check_problem(kTwo, boxed({{{0, 0}, {4, 4}}}), "placements/tp", {"1 boxes for 2 coordinates"});
  check_problem(kTwo, flat({{0, 4}, {4, 8}, {8, 8}}), "placements/tp",
                {"3 flat ranges for 2 coordinates"});
}

TEST_CASE("boxes after another cut are reported in coordinates of the tensor and with its ranks") {
  const trace::Mesh mesh = make_mesh({{"a", 2}, {"tp", 2}});
  // Each rank has 2 rows left by "a"; the boxes leave column 3 of them to nobody.
  trace::TensorEntry entry = boxed({{{0, 0}, {2, 2}}, {{0, 2}, {2, 1}}});
  entry.placements["a"] = Shard{0, std::nullopt};
  check_problem(mesh, entry, "placements/tp", {"[0:2, 3:4]", "held by nobody"});
  // All 4 rows by turns: local rows 0 and 1 of coordinate 0 are 0 and 2.
  entry = boxed({{{0, 0}, {2, 4}}, {{1, 0}, {1, 4}}});
  entry.placements["a"] = trace::Strided{0, 2};
  check_problem(mesh, entry, "placements/tp", {"[2:3, 0:4]", "tp 0 (rank 0)", "tp 1 (rank 1)"});
}

TEST_CASE("flat ranges that leave a gap are reported with elements and a place") {
  check_problem(kTwo, flat({{0, 3}, {5, 8}}), "placements/tp",
                {"elements 3 to 4", "flattened [2, 4]", "[0:1, 3:4]", "held by nobody"});
  check_problem(kTwo, flat({{0, 0}, {0, 7}}), "placements/tp",
                {"elements 7 to 7", "[1:2, 3:4]", "held by nobody"});
}

TEST_CASE("flat ranges that overlap are reported with both ranks") {
  check_problem(kTwo, flat({{0, 5}, {4, 8}}), "placements/tp",
                {"elements 4 to 4", "[1:2, 0:1]", "tp 0 (rank 0)", "tp 1 (rank 1)"});
}

TEST_CASE("flat ranges beyond the array are reported with its elements") {
  check_problem(kTwo, flat({{0, 4}, {4, 9}}), "placements/tp",
                {"range 1 ends at 9", "[2, 4] has 8 elements"});
  check_problem(kTwo, flat({{0, 8}, {kMost, kMost}}), "placements/tp",
                {"range 1 ends at 18446744073709551615", "8 elements"});
}

TEST_CASE("flat ranges must fit what every coordinate of the other axes has left") {
  const trace::Mesh mesh = make_mesh({{"dp", 2}, {"tp", 2}});
  trace::TensorEntry entry =
      placed({5}, {{"dp", Flat{{{0, 2}, {2, 3}}}}, {"tp", Shard{0, std::nullopt}}});
  check_problem(mesh, entry, "placements/dp", {"range 1 ends at 3", "[2] has 2 elements"});
  entry.placements["dp"] = Flat{{{0, 1}, {1, 2}}};
  check_problem(mesh, entry, "placements/dp", {"elements 2 to 2", "[2:3]", "held by nobody"});
}

TEST_CASE("two flat axes are refused at the second") {
  const trace::Mesh mesh = make_mesh({{"dp", 1}, {"tp", 1}});
  check_problem(mesh, placed({4}, {{"dp", Flat{{{0, 4}}}}, {"tp", Flat{{{0, 4}}}}}),
                "placements/tp", {"second axis is flat"});
}

TEST_CASE("thousands of boxes are checked") {
  const std::uint64_t side = 64;
  const trace::Mesh mesh = make_mesh({{"tp", side * side}});
  Boxes boxes;
  for (std::uint64_t i = 0; i < side * side; ++i) {
    boxes.boxes.push_back({{i / side * 2, i % side * 2}, {2, 2}});
  }
  const tensor::Shape shape{2 * side, 2 * side};
  CHECK(problems_of(mesh, placed(shape, {{"tp", boxes}})).empty());
  boxes.boxes[side + 1].extent = {1, 2};
  check_problem(mesh, placed(shape, {{"tp", boxes}}), "placements/tp",
                {"[3:4, 2:4]", "held by nobody"});
  boxes.boxes[side + 1].extent = {2, 3};
  check_problem(mesh, placed(shape, {{"tp", boxes}}), "placements/tp",
                {"[2:4, 4:5]", "tp 65 (rank 65)", "tp 66 (rank 66)"});
}

}  // namespace
}  // namespace ttrace::layout::impossible_boxes_test
