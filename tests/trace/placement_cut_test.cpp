#include "base/refusal.h"
#include "trace/placement.h"

namespace ttrace::trace::placement_cut_test {
namespace {

using tensor::Ranges;

using Held = std::vector<Ranges>;

const Shard kShard{0, std::nullopt};

Held cut(const Placement& placement, std::uint64_t parts, std::uint64_t index, Held held) {
  apply_cut(placement, parts, index, held);
  return held;
}

TEST_CASE("every placement of one dimension cuts what is held of it") {
  const Held held{{{0, 3}}, {{0, 8}}};
  CHECK(cut(Shard{1, std::nullopt}, 2, 1, held) == Held{{{0, 3}}, {{4, 4}}});
  CHECK(cut(Shard{1, {{5, 3}}}, 2, 1, held) == Held{{{0, 3}}, {{5, 3}}});
  CHECK(cut(Zigzag{1}, 2, 0, held) == Held{{{0, 3}}, {{0, 2}, {6, 2}}});
  CHECK(cut(Segments{1, {4, 4}, 1, {}}, 2, 1, held) == Held{{{0, 3}}, {{2, 2}, {6, 2}}});
  CHECK(cut(Strided{1, 4}, 2, 0, held) == Held{{{0, 3}}, {{0, 1}, {2, 1}, {4, 1}, {6, 1}}});
}

TEST_CASE("a cut counts in local order") {
  CHECK(cut(kShard, 2, 0, {{{6, 2}, {0, 2}}}) == Held{{{6, 2}}});
  CHECK(cut(kShard, 2, 1, {{{6, 1}, {0, 3}}}) == Held{{{1, 2}}});
  CHECK(cut(Zigzag{0}, 2, 0, {{{6, 2}, {0, 2}}}) == Held{{{6, 1}, {1, 1}}});
}

TEST_CASE("a box keeps a range of every dimension") {
  const Boxes boxes{{{{0, 0}, {1, 3}}, {{1, 1}, {3, 2}}}};
  CHECK(cut(boxes, 2, 1, {{{4, 2}, {0, 2}}, {{10, 3}}}) == Held{{{5, 1}, {0, 2}}, {{11, 2}}});
}

TEST_CASE("an empty box keeps nothing, wherever it lies") {
  const Boxes boxes{{{{4, 3}, {0, 0}}, {{0, 0}, {4, 3}}}};
  CHECK(cut(boxes, 2, 0, {{{0, 4}}, {{0, 3}}}) == Held{{}, {}});
}

TEST_CASE("a box outside what is held is refused with its number and dimension") {
  const Boxes boxes{{{{0, 0}, {2, 2}}, {{1, 0}, {2, 2}}}};
  test::check_refused(
      [&] {
        cut(boxes, 2, 1, {{{0, 2}}, {{0, 2}}});
      },
      {"box 1", "offset [1, 0] size [2, 2]", "dimension 0", "2 elements"});
}

TEST_CASE("what cuts nothing, flat and rows leave what is held") {
  const Held held{{{0, 4}}};
  for (const Placement& placement :
       {Placement{Replicate{}}, Placement{Partial{}}, Placement{Only{1}},
        Placement{Flat{{{0, 1}, {1, 4}}}}, Placement{Rows{0, "index"}}}) {
    CAPTURE(to_string(placement));
    CHECK(cut(placement, 2, 1, held) == held);
  }
}

TEST_CASE("placements that give coordinates different elements cut") {
  for (const Placement& placement :
       {Placement{kShard}, Placement{Zigzag{}}, Placement{Segments{}}, Placement{Strided{}},
        Placement{Flat{}}, Placement{Boxes{}}, Placement{Rows{}}}) {
    CAPTURE(to_string(placement));
    CHECK(cuts(placement));
  }
  CHECK_FALSE(cuts(Replicate{}));
  CHECK_FALSE(cuts(Partial{}));
  CHECK_FALSE(cuts(Only{}));
}

TEST_CASE("lists must have a number for every coordinate") {
  CHECK_NOTHROW(require_fitting_lists(kShard, 7));
  CHECK_NOTHROW(require_fitting_lists(Segments{0, {2}, 1, {}}, 7));
  CHECK_NOTHROW(require_fitting_lists(Flat{{{0, 1}}}, 1));
  test::check_refused(
      [] {
        require_fitting_lists(Shard{0, {{1, 2}}}, 3);
      },
      {"2 shard sizes for 3 coordinates"});
  test::check_refused(
      [] {
        require_fitting_lists(Segments{0, {2}, 1, {{{2}}}}, 3);
      },
      {"1 parts of a segment for 3 coordinates"});
  test::check_refused(
      [] {
        require_fitting_lists(Flat{{{0, 1}}}, 3);
      },
      {"1 flat ranges for 3 coordinates"});
  test::check_refused([] { require_fitting_lists(Boxes{}, 3); }, {"0 boxes for 3 coordinates"});
}

}  // namespace
}  // namespace ttrace::trace::placement_cut_test
