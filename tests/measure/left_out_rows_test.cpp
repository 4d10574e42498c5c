#include "measure/left_out_rows.h"

#include <numeric>

#include "measure/cpu/cpu_backend.h"
#include "measure/measure.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::measure {
namespace {

using Doubles = std::vector<double>;

TEST_CASE("the leading dimensions that count the rows are found") {
  CHECK(row_dimensions({6, 4}, 6) == std::optional<std::size_t>(1));
  CHECK(row_dimensions({2, 3, 4}, 6) == std::optional<std::size_t>(2));
  CHECK(row_dimensions({6, 1, 4}, 6) == std::optional<std::size_t>(1));
  CHECK(row_dimensions({6}, 6) == std::optional<std::size_t>(1));
  CHECK(row_dimensions({2, 3}, 3) == std::nullopt);
  CHECK(row_dimensions({7, 4}, 6) == std::nullopt);
  CHECK(row_dimensions({}, 1) == std::nullopt);
  CHECK(row_dimensions({0, 4}, 6) == std::nullopt);
  CHECK(row_dimensions({0, 4}, 0) == std::optional<std::size_t>(1));
  CHECK(row_dimensions({std::uint64_t{1} << 40, std::uint64_t{1} << 40}, 1) == std::nullopt);
}

TEST_CASE("rows left out are made equal, in whatever part of the tensor") {
  LeftOutRows rows(6);
  rows.add(1);
  rows.add(5);
  CHECK(rows.count() == 2);
  const tensor::Shape shape{2, 3, 2};
  const Doubles reference(4, 1);
  Doubles candidate(4, 9);
  // Tokens 1 and 4, of which the first is left out.
  rows.apply(shape, {{0, 1, 0}, {2, 1, 2}}, reference, candidate);
  CHECK(candidate == Doubles{1, 1, 9, 9});
  Doubles column(3, 9);  // the second feature of tokens 3, 4 and 5
  rows.apply(shape, {{1, 0, 1}, {1, 3, 1}}, Doubles(3, 1), column);
  CHECK(column == Doubles{9, 9, 1});
  LeftOutRows more(6);
  more.add(0);
  more.add(rows);
  CHECK(more.count() == 3);
  CHECK(more.contains(5));
}

TEST_CASE("a measurement leaves rows out of every sum") {
  test::MemoryTrace source(test::make_mesh({{"tp", 2}}));
  trace::TensorEntry entry =
      test::make_entry("x", {4, 2}, trace::Kind::kOutput, tensor::DType::kFloat64);
  entry.placements = {{"tp", trace::Shard{1, std::nullopt}}};
  source.put(entry, {1, 2, 3, 4, 5, 6, 7, 8});
  test::MemoryTrace reference;
  trace::TensorEntry whole =
      test::make_entry("x", {4, 2}, trace::Kind::kOutput, tensor::DType::kFloat64);
  reference.put(whole, {1, 2, 0, 0, 5, 6, 7, 9});
  LeftOutRows rows(4);
  rows.add(1);
  const Grid grid({4, 2}, {2, 1});
  const Measurement measured =
      measure(cpu_backend(), {&reference, &whole}, {&source, &entry}, &grid, &rows);
  CHECK(measured.total.sum_d2 == 1);
  CHECK(measured.total.unequal == 1);
  CHECK(measured.total.elements == 8);
  CHECK(measured.cells[0].d2 == 0);
  CHECK(measured.cells[1].d2 == 1);
}

}  // namespace
}  // namespace ttrace::measure
