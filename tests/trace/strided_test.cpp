#include "trace/placements/strided.h"

#include "support/catch.h"

namespace ttrace::trace {
namespace {

using tensor::Ranges;

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
}  // namespace ttrace::trace
