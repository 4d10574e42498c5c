#include "tensor/box.h"

#include <cstring>
#include <vector>

#include "base/refusal.h"
#include "support/catch.h"

namespace ttrace::tensor::box_test {
namespace {

constexpr std::uint64_t kHuge = std::uint64_t{1} << 40;

TEST_CASE("elements are counted") {
  CHECK(element_count({}) == std::uint64_t{1});
  CHECK(element_count({7}) == std::uint64_t{7});
  CHECK(element_count({2, 3, 4}) == std::uint64_t{24});
  CHECK(element_count({kHuge, std::uint64_t{1} << 23}) == std::uint64_t{1} << 63);
}

TEST_CASE("a count that overflows is absent") {
  CHECK_FALSE(element_count({kHuge, kHuge}).has_value());
  CHECK_FALSE(element_count({UINT64_MAX, 2}).has_value());
  CHECK(element_count({UINT64_MAX}) == UINT64_MAX);
}

TEST_CASE("a zero extent wins over an overflow wherever it stands") {
  CHECK(element_count({0}) == std::uint64_t{0});
  CHECK(element_count({kHuge, kHuge, 0}) == std::uint64_t{0});
  CHECK(element_count({0, kHuge, kHuge}) == std::uint64_t{0});
  CHECK(byte_count({kHuge, kHuge, 0}, DType::kFloat64) == std::uint64_t{0});
}

TEST_CASE("bytes are elements times their width") {
  CHECK(byte_count({}, DType::kFloat64) == std::uint64_t{8});
  CHECK(byte_count({3, 5}, DType::kBFloat16) == std::uint64_t{30});
  CHECK(byte_count({UINT64_MAX}, DType::kInt8) == UINT64_MAX);
  CHECK_FALSE(byte_count({std::uint64_t{1} << 61}, DType::kFloat64).has_value());
  CHECK_FALSE(byte_count({kHuge, kHuge}, DType::kInt8).has_value());
}

TEST_CASE("shapes as text") {
  CHECK(to_string(Shape{}) == "[]");
  CHECK(to_string(Shape{8}) == "[8]");
  CHECK(to_string(Shape{8, 0, 32}) == "[8, 0, 32]");
}

const Box kScalar{{}, {}};

TEST_CASE("a whole tensor starts at the origin") {
  CHECK(whole({2, 3}) == Box{{0, 0}, {2, 3}});
  CHECK(whole({}) == kScalar);
}

TEST_CASE("volume and emptiness of boxes") {
  CHECK(volume({{5, 6}, {2, 3}}) == 6);
  CHECK(volume(kScalar) == 1);
  CHECK(volume({{5, 6}, {2, 0}}) == 0);
  CHECK(empty({{5, 6}, {2, 0}}));
  CHECK_FALSE(empty({{5, 6}, {2, 1}}));
  CHECK_FALSE(empty(kScalar));
  test::check_defect([] { volume({{0, 0}, {UINT64_MAX, 2}}); }, {"overflows"});
}

TEST_CASE("boxes intersect in their common part") {
  const Box a{{0, 4}, {4, 4}};
  CHECK(intersect(a, {{2, 0}, {9, 6}}) == Box{{2, 4}, {2, 2}});
  CHECK(intersect(a, a) == a);
  CHECK(intersect(a, {{1, 5}, {1, 1}}) == Box{{1, 5}, {1, 1}});
  CHECK_FALSE(intersect(a, {{4, 4}, {1, 1}}).has_value());  // touches
  CHECK_FALSE(intersect(a, {{0, 9}, {4, 1}}).has_value());  // apart
  CHECK_FALSE(intersect(a, {{1, 5}, {0, 1}}).has_value());  // empty inside
  CHECK(intersect(kScalar, kScalar) == kScalar);
}

TEST_CASE("a box moves into another frame and back") {
  const Box box{{5, 7}, {2, 3}};
  CHECK(relative_to(box, {4, 7}) == Box{{1, 0}, {2, 3}});
  CHECK(shifted(box, {10, 1}) == Box{{15, 8}, {2, 3}});
  CHECK(shifted(relative_to(box, {5, 6}), {5, 6}) == box);
  CHECK(relative_to(kScalar, {}) == kScalar);
}

TEST_CASE("coordinates follow row-major order") {
  const Box box{{10, 20, 30}, {2, 3, 4}};
  CHECK(coordinates(box, 0) == Shape{10, 20, 30});
  CHECK(coordinates(box, 1) == Shape{10, 20, 31});
  CHECK(coordinates(box, 4) == Shape{10, 21, 30});
  CHECK(coordinates(box, 12) == Shape{11, 20, 30});
  CHECK(coordinates(box, 23) == Shape{11, 22, 33});
  CHECK(coordinates(kScalar, 0).empty());
}

std::vector<Box> slabs_of(const Box& box, std::uint64_t limit) {
  std::vector<Box> slabs;
  for_each_sub_box(box, limit, [&](const Box& slab) { slabs.push_back(slab); });
  return slabs;
}

TEST_CASE("slabs are runs of whole rows where those fit") {
  CHECK(slabs_of({{1, 2}, {5, 4}}, 8) ==
        std::vector<Box>{{{1, 2}, {2, 4}}, {{3, 2}, {2, 4}}, {{5, 2}, {1, 4}}});
  CHECK(slabs_of({{0, 0}, {2, 5}}, 3) ==
        std::vector<Box>{{{0, 0}, {1, 3}}, {{0, 3}, {1, 2}}, {{1, 0}, {1, 3}}, {{1, 3}, {1, 2}}});
  CHECK(slabs_of({{0, 0}, {2, 5}}, 10) == std::vector<Box>{{{0, 0}, {2, 5}}});
}

TEST_CASE("slabs of a scalar and of nothing") {
  CHECK(slabs_of(kScalar, 1) == std::vector<Box>{kScalar});
  CHECK(slabs_of({{0, 0}, {0, 4}}, 1).empty());
  CHECK(slabs_of({{0, 0, 0}, {UINT64_MAX, UINT64_MAX, 0}}, 4).empty());
  test::check_defect([] { slabs_of(kScalar, 0); });
}

TEST_CASE("copy_common copies a scalar") {
  const double from = 2.5;
  double to = 0;
  copy_common(kScalar, std::as_bytes(std::span(&from, 1)), kScalar,
              std::as_writable_bytes(std::span(&to, 1)), sizeof(double));
  CHECK(to == 2.5);
}

TEST_CASE("copy_common touches nothing without a common part") {
  const std::vector<std::uint16_t> from{1, 2, 3};
  std::vector<std::uint16_t> to{7, 8};
  copy_common({{0}, {3}}, std::as_bytes(std::span(from)), {{3}, {2}},
              std::as_writable_bytes(std::span(to)), sizeof(std::uint16_t));
  CHECK(to == std::vector<std::uint16_t>{7, 8});
}

TEST_CASE("boxes as text") {
  CHECK(to_string(Box{{0, 16}, {4, 16}}) == "[0:4, 16:32]");
  CHECK(to_string(kScalar) == "[]");
}

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
}  // namespace ttrace::tensor::box_test
