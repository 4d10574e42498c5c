#include "trace/placements/rows.h"

#include "base/refusal.h"
#include "support/memory_trace.h"

namespace ttrace::trace::rows_test {
namespace {

using tensor::Ranges;

TEST_CASE("rows that follow each other are one range") {
  CHECK(rows_from_numbers({3, 4, 5, 0, 9, 8}, 10) == Ranges{{3, 3}, {0, 1}, {9, 1}, {8, 1}});
  CHECK(rows_from_numbers({}, 10).empty());
  CHECK(rows_from_numbers({0, 1, 2}, 3) == Ranges{{0, 3}});
}

TEST_CASE("negative numbers are padding, whatever they are") {
  CHECK(rows_from_numbers({-1, -7, 2, 3, -1, 4}, 5) ==
        Ranges{{kPadding, 2}, {2, 2}, {kPadding, 1}, {4, 1}});
  CHECK(rows_from_numbers({INT64_MIN}, 0) == Ranges{{kPadding, 1}});
}

TEST_CASE("a row twice is two ranges, not none") {
  CHECK(rows_from_numbers({1, 1, 2}, 3) == Ranges{{1, 1}, {1, 2}});
}

TEST_CASE("a number beyond the dimension is refused with its place") {
  test::check_refused([] { rows_from_numbers({0, 5}, 5); }, {"row 5", "element 1", "5 rows"});
  test::check_refused([] { rows_from_numbers({INT64_MAX}, 5); },
                      {"row 9223372036854775807", "element 0"});
  test::check_refused([] { rows_from_numbers({0}, 0); }, {"row 0", "0 rows"});
}

TEST_CASE("the index has the tensor's step, micro-batch and call") {
  TensorKey key = test::make_key("experts.0", Kind::kGradInput, 4);
  key.microbatch = 2;
  key.call = 3;
  key.copy = 1;
  const TensorKey index = index_key(key, "router");
  CHECK(index.kind == Kind::kIndex);
  CHECK(index.name == "router");
  CHECK(index.step == 4);
  CHECK(index.microbatch == 2U);
  CHECK(index.call == 3);
  CHECK(index.copy == 0);
}

}  // namespace
}  // namespace ttrace::trace::rows_test
