#include "trace/placements/shard.h"

#include <vector>

#include "base/refusal.h"
#include "support/catch.h"

namespace ttrace::trace::shard_test {
namespace {

using tensor::Range;
using tensor::Ranges;

std::vector<Range> chunks_of(std::uint64_t extent, std::uint64_t parts) {
  std::vector<Range> all;
  for (std::uint64_t i = 0; i < parts; ++i) all.push_back(chunk(extent, parts, i));
  return all;
}

// torch.chunk by its definition: take ⌈extent / parts⌉ elements at a time while there are any.
std::vector<std::vector<std::uint64_t>> chunked(std::uint64_t extent, std::uint64_t parts) {
  std::uint64_t size = 0;
  while (size * parts < extent) ++size;
  std::vector<std::vector<std::uint64_t>> chunks(parts);
  std::size_t chunk = 0;
  for (std::uint64_t element = 0; element < extent; ++element) {
    if (chunks[chunk].size() == size) ++chunk;
    chunks.at(chunk).push_back(element);
  }
  return chunks;
}

TEST_CASE("shards without sizes are torch.chunk's for all small extents and parts") {
  for (std::uint64_t extent = 0; extent <= 50; ++extent) {
    for (std::uint64_t parts = 1; parts <= 9; ++parts) {
      CAPTURE(extent, parts);
      const auto chunks = chunked(extent, parts);
      std::uint64_t end = 0;
      bool same = true;
      for (std::uint64_t i = 0; i < parts; ++i) {
        const Range range = chunk(extent, parts, i);
        same = same && range.length == chunks[i].size() && range.start == end &&
               (chunks[i].empty() || range.start == chunks[i].front());
        end = range.start + range.length;
      }
      CHECK(same);
      CHECK(end == extent);
    }
  }
}

TEST_CASE("known chunks") {
  CHECK(chunks_of(10, 4) == std::vector<Range>{{0, 3}, {3, 3}, {6, 3}, {9, 1}});
  CHECK(chunks_of(5, 4) == std::vector<Range>{{0, 2}, {2, 2}, {4, 1}, {5, 0}});
  CHECK(chunks_of(2, 4) == std::vector<Range>{{0, 1}, {1, 1}, {2, 0}, {2, 0}});
}

TEST_CASE("chunks of the largest extents do not overflow") {
  constexpr std::uint64_t kMost = UINT64_MAX;
  CHECK(chunk(kMost, 2, 0) == Range{0, std::uint64_t{1} << 63});
  CHECK(chunk(kMost, 2, 1) == Range{std::uint64_t{1} << 63, (std::uint64_t{1} << 63) - 1});
  // Parts of 2, and so many of them that index · 2 passes 2^64: the last ones are empty.
  const std::uint64_t parts = (std::uint64_t{1} << 63) + 1;
  CHECK(chunk(kMost, parts, parts - 2) == Range{kMost - 1, 1});
  CHECK(chunk(kMost, parts, parts - 1) == Range{kMost, 0});
}

TEST_CASE("given sizes are taken in order") {
  const std::vector<std::uint64_t> sizes{3, 0, 5};
  CHECK(given_part(sizes, 8, 0) == Range{0, 3});
  CHECK(given_part(sizes, 8, 1) == Range{3, 0});
  CHECK(given_part(sizes, 8, 2) == Range{3, 5});
  CHECK(given_part({0, 0}, 0, 1) == Range{0, 0});
}

TEST_CASE("given sizes that do not fit are refused") {
  test::check_refused([] { given_part({3, 5}, 9, 0); }, {"add up to 8", "9 elements"});
  test::check_refused([] { given_part({3, 5}, 7, 1); }, {"add up to 8", "7 elements"});
  test::check_refused([] { given_part({UINT64_MAX, 2}, 1, 0); }, {"overflow"});
}

TEST_CASE("an empty part has no ranges") {
  CHECK(Shard{0, {{3, 0, 5}}}.part(8, 3, 1).empty());
  CHECK(Shard{0, std::nullopt}.part(2, 4, 3).empty());
  CHECK(Shard{0, std::nullopt}.part(10, 4, 3) == Ranges{{9, 1}});
  CHECK(Shard{0, {{3, 0, 5}}}.part(8, 3, 2) == Ranges{{3, 5}});
}

TEST_CASE("a coordinate has a chunk from the front and its mirror image from the back") {
  CHECK(Zigzag{0}.part(16, 4, 0) == Ranges{{0, 2}, {14, 2}});
  CHECK(Zigzag{0}.part(16, 4, 1) == Ranges{{2, 2}, {12, 2}});
  CHECK(Zigzag{0}.part(16, 4, 2) == Ranges{{4, 2}, {10, 2}});
  CHECK(Zigzag{0}.part(16, 4, 3) == Ranges{{6, 4}});  // the two in the middle are neighbours
}

TEST_CASE("the chunks of an uneven dimension are torch.chunk's") {
  // 10 in 4 chunks: 3, 3, 3, 1.
  CHECK(Zigzag{0}.part(10, 2, 0) == Ranges{{0, 3}, {9, 1}});
  CHECK(Zigzag{0}.part(10, 2, 1) == Ranges{{3, 6}});
  // 3 in 4 chunks: 1, 1, 1, 0.
  CHECK(Zigzag{0}.part(3, 2, 0) == Ranges{{0, 1}});
  CHECK(Zigzag{0}.part(3, 2, 1) == Ranges{{1, 2}});
}

TEST_CASE("one coordinate has it all, and of nothing there are no ranges") {
  CHECK(Zigzag{0}.part(7, 1, 0) == Ranges{{0, 7}});
  CHECK(Zigzag{0}.part(0, 3, 1).empty());
}

TEST_CASE("every chunk is cut over the coordinates on its own") {
  CHECK(Strided{0, 2}.part(8, 2, 0) == Ranges{{0, 2}, {4, 2}});
  CHECK(Strided{0, 2}.part(8, 2, 1) == Ranges{{2, 2}, {6, 2}});
}

TEST_CASE("chunks and their parts are torch.chunk's where they are uneven") {
  // 10 in 3 chunks: 4, 4, 2; over 3 coordinates: 2 + 2 + 0, 2 + 2 + 0 and 1 + 1 + 0.
  CHECK(Strided{0, 3}.part(10, 3, 0) == Ranges{{0, 2}, {4, 2}, {8, 1}});
  CHECK(Strided{0, 3}.part(10, 3, 1) == Ranges{{2, 2}, {6, 2}, {9, 1}});
  CHECK(Strided{0, 3}.part(10, 3, 2).empty());
}

TEST_CASE("a stride of one is a plain shard") {
  CHECK(Strided{0, 1}.part(7, 2, 0) == Ranges{{0, 4}});
  CHECK(Strided{0, 1}.part(7, 2, 1) == Ranges{{4, 3}});
}

TEST_CASE("chunks beyond the elements are empty") {
  // Chunks of one element, which the first coordinate has; they join.
  CHECK(Strided{0, 9}.part(3, 2, 0) == Ranges{{0, 3}});
  CHECK(Strided{0, 9}.part(3, 2, 1).empty());
  CHECK(Strided{0, 4}.part(0, 2, 0).empty());
}

TEST_CASE("one coordinate has all chunks as one range") {
  CHECK(Strided{0, 4}.part(10, 1, 0) == Ranges{{0, 10}});
}

}  // namespace
}  // namespace ttrace::trace::shard_test
