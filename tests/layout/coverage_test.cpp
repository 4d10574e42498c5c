#include "layout/coverage.h"

#include "support/catch.h"

namespace ttrace::layout {
namespace {

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
}  // namespace ttrace::layout
