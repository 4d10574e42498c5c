#include "trace/placements/segments.h"

#include "base/refusal.h"

namespace ttrace::trace::segments_test {
namespace {

using tensor::Ranges;

TEST_CASE("every segment is cut on its own") {
  const Segments qkv{0, {8, 4, 4}, 1, {}};
  CHECK(qkv.part(16, 2, 0) == Ranges{{0, 4}, {8, 2}, {12, 2}});
  CHECK(qkv.part(16, 2, 1) == Ranges{{4, 4}, {10, 2}, {14, 2}});
}

TEST_CASE("a segment is cut as by torch.chunk, its last parts smaller or empty") {
  // 5 over 3: 2, 2, 1. 1 over 3: 1, 0, 0.
  const Segments segments{0, {5, 1}, 1, {}};
  CHECK(segments.part(6, 3, 0) == Ranges{{0, 2}, {5, 1}});
  CHECK(segments.part(6, 3, 1) == Ranges{{2, 2}});
  CHECK(segments.part(6, 3, 2) == Ranges{{4, 1}});
}

TEST_CASE("the list of segments is repeated") {
  const Segments experts{0, {2, 2}, 3, {}};
  CHECK(experts.part(12, 2, 0) == Ranges{{0, 1}, {2, 1}, {4, 1}, {6, 1}, {8, 1}, {10, 1}});
  CHECK(experts.part(12, 2, 1) == Ranges{{1, 1}, {3, 1}, {5, 1}, {7, 1}, {9, 1}, {11, 1}});
  // What one coordinate has alone is joined again.
  CHECK(experts.part(12, 1, 0) == Ranges{{0, 12}});
}

TEST_CASE("given parts of a segment are taken in every repetition") {
  const Segments segments{0, {3, 2}, 2, {{{1, 2}, {2, 0}}}};
  CHECK(segments.part(10, 2, 0) == Ranges{{0, 1}, {3, 3}, {8, 2}});
  CHECK(segments.part(10, 2, 1) == Ranges{{1, 2}, {6, 2}});
}

TEST_CASE("empty segments are nothing") {
  CHECK(Segments{0, {0, 4, 0}, 1, {}}.part(4, 2, 1) == Ranges{{2, 2}});
  CHECK(Segments{0, {0}, 5, {}}.part(0, 2, 0).empty());
}

TEST_CASE("segments that do not add up are refused with both sums") {
  test::check_refused(
      [] {
        Segments{0, {8, 4}, 1, {}}.part(13, 2, 0);
      },
      {"add up to 12", "13 elements"});
  test::check_refused(
      [] {
        Segments{0, {8, 4}, 2, {}}.part(12, 2, 0);
      },
      {"add up to 24", "12 elements"});
  test::check_refused(
      [] {
        Segments{0, {3}, 1, {{{1, 1}}}}.part(3, 2, 0);
      },
      {"add up to 2", "3 elements"});
}

TEST_CASE("segments beyond 64 bits or without number are refused") {
  test::check_refused([] { Segments{0, {UINT64_MAX, 1}, 1, {}}.part(0, 2, 0); }, {"overflow"});
  test::check_refused([] { Segments{0, {3}, UINT64_MAX, {}}.part(3, 2, 0); }, {"overflow"});
  const std::uint64_t repeat = std::uint64_t{1} << 30;
  test::check_refused(
      [=] {
        Segments{0, {1, 1}, repeat, {}}.part(2 * repeat, 2, 0);
      },
      {"2 segments, 1073741824 times", "1048576"});
}

}  // namespace
}  // namespace ttrace::trace::segments_test
