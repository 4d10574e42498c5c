#include "tensor/ranges.h"

#include "base/refusal.h"

namespace ttrace::tensor {
namespace {

TEST_CASE("the total of ranges is their number of indices") {
  CHECK(total({}) == 0);
  CHECK(total({{3, 4}, {0, 2}}) == 6);
}

TEST_CASE("a range that goes on from the last one is joined to it") {
  Ranges ranges;
  append(ranges, {0, 2});
  append(ranges, {2, 3});
  CHECK(ranges == Ranges{{0, 5}});
  append(ranges, {7, 1});
  append(ranges, {6, 1});
  CHECK(ranges == Ranges{{0, 5}, {7, 1}, {6, 1}});
}

TEST_CASE("an empty range is not kept") {
  Ranges ranges;
  append(ranges, {5, 0});
  CHECK(ranges.empty());
  append(ranges, {0, 2});
  append(ranges, {9, 0});
  append(ranges, {2, 1});
  CHECK(ranges == Ranges{{0, 3}});
}

TEST_CASE("more ranges than any job has are refused") {
  Ranges ranges;
  for (std::uint64_t i = 0; i < kMostRanges; ++i) ranges.push_back({2 * i, 1});
  append(ranges, {2 * kMostRanges - 1, 1});  // joins the last one
  test::check_refused([&] { append(ranges, {0, 1}); }, {"more than 1048576 separate ranges"});
}

TEST_CASE("positions within ranges are selected in their order") {
  const Ranges held{{10, 3}, {2, 2}, {20, 4}};  // 10 11 12 2 3 20 21 22 23
  CHECK(select(held, {{0, 9}}) == held);
  CHECK(select(held, {{0, 1}}) == Ranges{{10, 1}});
  CHECK(select(held, {{2, 4}}) == Ranges{{12, 1}, {2, 2}, {20, 1}});
  CHECK(select(held, {{7, 2}, {0, 2}}) == Ranges{{22, 2}, {10, 2}});
  CHECK(select(held, {{3, 1}, {4, 1}}) == Ranges{{2, 2}});
  CHECK(select(held, {}).empty());
  CHECK(select({}, {}).empty());
}

TEST_CASE("positions within one range are moved by its start") {
  CHECK(select({{10, 8}}, {{6, 2}, {0, 1}}) == Ranges{{16, 2}, {10, 1}});
  CHECK(select({{10, 8}}, {}).empty());
}

}  // namespace
}  // namespace ttrace::tensor
