#include "trace/placements/flat.h"

#include "support/catch.h"

namespace ttrace::trace::flat_test {
namespace {

using Boxes = std::vector<tensor::Box>;

TEST_CASE("a range of one dimension is one box") {
  CHECK(flat_boxes({10}, 3, 7) == Boxes{{{3}, {4}}});
  CHECK(flat_boxes({10}, 0, 10) == Boxes{{{0}, {10}}});
}

TEST_CASE("an empty range has no boxes") {
  CHECK(flat_boxes({10}, 3, 3).empty());
  CHECK(flat_boxes({2, 0}, 0, 0).empty());
  CHECK(flat_boxes({}, 1, 1).empty());
}

TEST_CASE("the one element of no dimensions is a box without extents") {
  CHECK(flat_boxes({}, 0, 1) == Boxes{{{}, {}}});
}

TEST_CASE("a range has the end of a row, whole rows and the start of one") {
  CHECK(flat_boxes({5, 4}, 3, 18) == Boxes{{{0, 3}, {1, 1}}, {{1, 0}, {3, 4}}, {{4, 0}, {1, 2}}});
  CHECK(flat_boxes({5, 4}, 4, 12) == Boxes{{{1, 0}, {2, 4}}});
  CHECK(flat_boxes({5, 4}, 4, 13) == Boxes{{{1, 0}, {2, 4}}, {{3, 0}, {1, 1}}});
  CHECK(flat_boxes({5, 4}, 2, 8) == Boxes{{{0, 2}, {1, 2}}, {{1, 0}, {1, 4}}});
  CHECK(flat_boxes({5, 4}, 3, 5) == Boxes{{{0, 3}, {1, 1}}, {{1, 0}, {1, 1}}});
}

TEST_CASE("a range within one row is one box") {
  CHECK(flat_boxes({5, 4}, 9, 11) == Boxes{{{2, 1}, {1, 2}}});
  CHECK(flat_boxes({5, 4}, 8, 12) == Boxes{{{2, 0}, {1, 4}}});
}

TEST_CASE("a range of three dimensions has five boxes at most") {
  // From [0, 1, 2] up to [2, 1, 1].
  CHECK(flat_boxes({3, 3, 4}, 6, 29) == Boxes{{{0, 1, 2}, {1, 1, 2}},
                                              {{0, 2, 0}, {1, 1, 4}},
                                              {{1, 0, 0}, {1, 3, 4}},
                                              {{2, 0, 0}, {1, 1, 4}},
                                              {{2, 1, 0}, {1, 1, 1}}});
  CHECK(flat_boxes({3, 3, 4}, 0, 36) == Boxes{{{0, 0, 0}, {3, 3, 4}}});
}

TEST_CASE("ranges of huge tensors cost nothing") {
  const std::uint64_t huge = std::uint64_t{1} << 31;
  CHECK(flat_boxes({huge, huge}, 1, huge * huge) ==
        Boxes{{{0, 1}, {1, huge - 1}}, {{1, 0}, {huge - 1, huge}}});
}

}  // namespace
}  // namespace ttrace::trace::flat_test
