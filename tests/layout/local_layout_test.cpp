#include "layout/local_layout.h"

#include "base/refusal.h"
#include "trace/placement.h"

namespace ttrace::layout::local_layout_test {
namespace {

TEST_CASE("one range of each dimension is one part") {
  const LocalLayout local = make_local_layout({{{4, 2}}, {{1, 3}}}, {});
  CHECK(local.shape == tensor::Shape{2, 3});
  CHECK(local.dataset_shape() == tensor::Shape{2, 3});
  CHECK(local.parts == std::vector<PlacedBox>{{{{4, 1}, {2, 3}}, {{0, 0}, {2, 3}}}});
}

TEST_CASE("no dimensions are one part, and no ranges are none") {
  CHECK(make_local_layout({}, {}).parts == std::vector<PlacedBox>{{{{}, {}}, {{}, {}}}});
  const LocalLayout nothing = make_local_layout({{}, {{0, 3}}}, {});
  CHECK(nothing.shape == tensor::Shape{0, 3});
  CHECK(nothing.parts.empty());
}

TEST_CASE("several ranges are parts in the order of the rank's array") {
  const LocalLayout local = make_local_layout({{{0, 1}, {6, 2}}, {{5, 1}, {2, 1}}}, {});
  CHECK(local.shape == tensor::Shape{3, 2});
  CHECK(local.parts == std::vector<PlacedBox>{{{{0, 5}, {1, 1}}, {{0, 0}, {1, 1}}},
                                              {{{0, 2}, {1, 1}}, {{0, 1}, {1, 1}}},
                                              {{{6, 5}, {2, 1}}, {{1, 0}, {2, 1}}},
                                              {{{6, 2}, {2, 1}}, {{1, 1}, {2, 1}}}});
}

TEST_CASE("padding has a place in the array and is no part") {
  const LocalLayout local = make_local_layout({{{3, 1}, {trace::kPadding, 2}, {0, 1}}}, {});
  CHECK(local.shape == tensor::Shape{4});
  CHECK(local.parts == std::vector<PlacedBox>{{{{3}, {1}}, {{0}, {1}}}, {{{0}, {1}}, {{3}, {1}}}});
}

TEST_CASE("a flat range is the parts of its boxes, in coordinates of the array") {
  // Rows 4 and 5 of 3 columns; elements 2 to 4 of the 6.
  const LocalLayout local = make_local_layout({{{4, 2}}, {{0, 3}}}, Range{2, 3});
  CHECK(local.shape == tensor::Shape{2, 3});
  CHECK(local.dataset_shape() == tensor::Shape{3});
  CHECK(local.parts == std::vector<PlacedBox>{{{{4, 2}, {1, 1}}, {{0, 2}, {1, 1}}},
                                              {{{5, 0}, {1, 2}}, {{1, 0}, {1, 2}}}});
}

TEST_CASE("a flat range over several ranges is cut by both") {
  // Rows 0 and 7, elements 1 to 3 of the 4.
  const LocalLayout local = make_local_layout({{{0, 1}, {7, 1}}, {{0, 2}}}, Range{1, 3});
  CHECK(local.parts == std::vector<PlacedBox>{{{{0, 1}, {1, 1}}, {{0, 1}, {1, 1}}},
                                              {{{7, 0}, {1, 2}}, {{1, 0}, {1, 2}}}});
}

TEST_CASE("an empty flat range has no parts and a dataset without elements") {
  const LocalLayout local = make_local_layout({{{0, 4}}}, Range{4, 0});
  CHECK(local.parts.empty());
  CHECK(local.dataset_shape() == tensor::Shape{0});
}

TEST_CASE("a flat range beyond the array is refused with both") {
  test::check_refused(
      [] {
        make_local_layout({{{0, 2}}, {{0, 3}}}, Range{4, 3});
      },
      {"[4, 7)", "6 elements", "[2, 3]"});
  test::check_refused([] { make_local_layout({{{0, 2}}, {{0, 3}}}, Range{7, 0}); }, {"6 elements"});
}

TEST_CASE("millions of separate boxes are refused") {
  Ranges scattered;
  for (std::uint64_t i = 0; i < 1025; ++i) scattered.push_back({2 * i, 1});
  test::check_refused(
      [&] {
        make_local_layout({scattered, scattered}, {});
      },
      {"more than 1048576 separate boxes"});
}

using tensor::Box;
using Boxes = std::vector<Box>;
using Owners = std::vector<std::size_t>;

TEST_CASE("boxes that share a tensor out have no defects") {
  CHECK(coverage_defects({4, 4}, Boxes{{{0, 0}, {4, 4}}}).empty());
  // A pinwheel, which no straight cut takes apart.
  CHECK(coverage_defects({3, 3}, Boxes{{{0, 0}, {1, 2}},
                                       {{0, 2}, {2, 1}},
                                       {{2, 1}, {1, 2}},
                                       {{1, 0}, {2, 1}},
                                       {{1, 1}, {1, 1}}})
            .empty());
}

TEST_CASE("the middle of a pinwheel is a gap") {
  const auto defects = coverage_defects(
      {3, 3}, Boxes{{{0, 0}, {1, 2}}, {{0, 2}, {2, 1}}, {{2, 1}, {1, 2}}, {{1, 0}, {2, 1}}});
  REQUIRE(defects.size() == 1);
  CHECK(defects[0].where == Box{{1, 1}, {1, 1}});
  CHECK(defects[0].owners.empty());
}

TEST_CASE("no boxes leave the whole tensor") {
  const auto defects = coverage_defects({2, 3}, {});
  REQUIRE(defects.size() == 1);
  CHECK(defects[0].where == Box{{0, 0}, {2, 3}});
}

TEST_CASE("an overlap is reported with both boxes, the lower one first") {
  const auto defects = coverage_defects({6}, Boxes{{{3}, {3}}, {{2}, {2}}, {{0}, {2}}});
  REQUIRE(defects.size() == 1);
  CHECK(defects[0].where == Box{{3}, {1}});
  CHECK(defects[0].owners == Owners{0, 1});
}

TEST_CASE("as many elements as the tensor has are no proof of cover") {
  const auto defects = coverage_defects({6}, Boxes{{{0}, {3}}, {{2}, {3}}});
  REQUIRE(defects.size() == 1);
  CHECK(defects[0].where == Box{{2}, {1}});
}

TEST_CASE("no more defects are reported than asked for") {
  const Boxes all_alike(5, Box{{0}, {2}});
  CHECK(coverage_defects({2}, all_alike, 1).size() == 1);
  CHECK(coverage_defects({2}, all_alike, 3).size() == 3);
  CHECK(coverage_defects({2}, all_alike, 100).size() == 10);  // pairs of 5
}

TEST_CASE("empty boxes neither cover nor overlap") {
  CHECK(coverage_defects({4}, Boxes{{{0}, {4}}, {{2}, {0}}, {{4}, {0}}}).empty());
}

TEST_CASE("a tensor without elements needs no cover") {
  CHECK(coverage_defects({0, 3}, {}).empty());
}

TEST_CASE("a scalar is covered by one box of no dimensions") {
  CHECK(coverage_defects({}, Boxes{{{}, {}}}).empty());
  CHECK(coverage_defects({}, {}).size() == 1);
  const auto twice = coverage_defects({}, Boxes{{{}, {}}, {{}, {}}});
  REQUIRE(twice.size() == 1);
  CHECK(twice[0].owners == Owners{0, 1});
}

}  // namespace
}  // namespace ttrace::layout::local_layout_test
