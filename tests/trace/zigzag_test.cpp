#include "trace/placements/zigzag.h"

#include "support/catch.h"

namespace ttrace::trace {
namespace {

using tensor::Ranges;

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

}  // namespace
}  // namespace ttrace::trace
