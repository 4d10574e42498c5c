#include "tensor/run_cursor.h"

#include <cstring>
#include <vector>

#include "property/random.h"

namespace ttrace::tensor::run_cursor_test {
namespace {

TEST_CASE("a cursor visits the elements of a part in its row-major order", "[tensor]") {
  const std::uint64_t first = test::base_seed();
  for (std::uint64_t seed = first; seed < first + 500; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    Box outer{random.shape(5, 0, 6), {}};
    for (std::size_t d = 0; d < outer.origin.size(); ++d) {
      outer.extent.push_back(random.between(1, 6));
    }
    const Box part = random.box_in(outer);
    std::vector<std::uint64_t> expected;
    for_each_sub_box(part, 1, [&](const Box& one) {
      expected.push_back(position(outer.extent, relative_to(one, outer.origin).origin));
    });

    std::vector<std::uint64_t> walked;
    RunCursor cursor(part, outer);
    std::size_t runs = 0;
    for (; cursor.left_in_run() > 0; ++runs) {
      const std::uint64_t count = cursor.left_in_run();
      for (std::uint64_t i = 0; i < count; ++i) walked.push_back(cursor.offset() + i);
      cursor.skip(count);
    }
    CHECK(walked == expected);
    const RunCursor again(part, outer);
    CHECK((again.is_one_run() || runs > 1 || expected.empty()));

    // Gathered in pieces of any size.
    std::vector<std::uint64_t> data(volume(outer));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = i;
    std::vector<std::uint64_t> gathered(expected.size());
    RunCursor pieces(part, outer);
    for (std::size_t at = 0; at < gathered.size();) {
      const std::size_t count = random.between(1, gathered.size() - at);
      pieces.gather(count, std::as_bytes(std::span(data)).data(), sizeof(std::uint64_t),
                    std::as_writable_bytes(std::span(gathered)).data() + 8 * at);
      at += count;
    }
    CHECK(gathered == expected);

    // Every place, from anywhere on.
    const std::size_t passed = random.between(0, expected.size());
    RunCursor places(part, outer);
    places.advance(passed);
    REQUIRE(places.has_groups_of(1));
    std::vector<std::size_t> offsets(expected.size() - passed);
    places.place(offsets.size(), 1, sizeof(std::uint64_t), offsets.data());
    CHECK(places.left_in_run() == 0);
    for (std::size_t i = 0; i < offsets.size(); ++i) CHECK(offsets[i] == 8 * expected[passed + i]);
  }
}

TEST_CASE("runs are cut into pieces", "[tensor]") {
  const Box frame = whole({3, 10});
  RunCursor rows({{1, 2}, {2, 6}}, frame);
  CHECK(rows.has_groups_of(3));
  CHECK_FALSE(rows.has_groups_of(4));
  std::vector<std::size_t> offsets(4);
  rows.place(6, 3, 2, offsets.data());
  rows.place(6, 3, 2, offsets.data() + 2);
  CHECK(offsets == std::vector<std::size_t>{24, 30, 44, 50});

  // One run ends with a smaller piece.
  RunCursor one(frame, frame);
  CHECK(one.has_groups_of(16));
  one.place(30, 16, 1, offsets.data());
  CHECK(offsets[0] == 0);
  CHECK(offsets[1] == 16);
}

TEST_CASE("full inner dimensions make long runs", "[tensor]") {
  const Box frame = whole({4, 3, 5});
  CHECK(RunCursor({{1, 0, 0}, {2, 3, 5}}, frame).left_in_run() == 30);
  CHECK(RunCursor({{1, 0, 0}, {2, 3, 5}}, frame).is_one_run());
  CHECK(RunCursor({{1, 1, 0}, {2, 2, 5}}, frame).left_in_run() == 10);
  CHECK_FALSE(RunCursor({{1, 1, 0}, {2, 2, 5}}, frame).is_one_run());
  CHECK(RunCursor({{1, 1, 2}, {1, 2, 2}}, frame).left_in_run() == 2);
  CHECK(RunCursor({{3, 2, 1}, {1, 1, 3}}, frame).is_one_run());
  CHECK(RunCursor({{}, {}}, {{}, {}}).left_in_run() == 1);
}

}  // namespace
}  // namespace ttrace::tensor::run_cursor_test
