#include "measure/measure.h"

#include <numeric>

#include "base/refusal.h"
#include "measure/cpu/cpu_backend.h"
#include "property/random.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::measure::measure_test {
namespace {

using tensor::DType;
using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;
using test::Random;
using trace::Shard;
using Doubles = std::vector<double>;

trace::TensorEntry wide(tensor::Shape shape) {
  return make_entry("w", std::move(shape), trace::Kind::kOutput, DType::kFloat64);
}

// A whole tensor in a trace of one rank.
struct Whole {
  Whole(tensor::Shape shape, const Doubles& values) : entry(wide(std::move(shape))) {
    source.put(entry, values);
  }
  TensorRef ref() const { return {&source, &entry}; }

  MemoryTrace source;
  trace::TensorEntry entry;
};

bool close(double a, double b) { return a == Catch::Approx(b).epsilon(1e-12); }

TEST_CASE("a sharded candidate measures as the whole tensor does") {
  Random random(11);
  const Doubles r = random.values(7 * 10);
  Doubles c = r;
  for (double& value : c) value += 1e-3 * random.symmetric();
  c[3 * 10 + 9] += 5;
  const Whole reference({7, 10}, r);
  const TileStats direct = box_stats(tensor::whole({7, 10}), r, c);
  for (const std::uint64_t dim : {0U, 1U}) {
    CAPTURE(dim);
    MemoryTrace source(make_mesh({{"tp", 3}}));
    trace::TensorEntry entry = wide({7, 10});
    entry.placements = {{"tp", Shard{dim, std::nullopt}}};
    source.put(entry, c);
    const Measurement measured = measure(cpu_backend(), reference.ref(), {&source, &entry}, {});
    const TileStats& total = measured.total;
    CHECK(total.elements == 70);
    CHECK(total.finite == 70);
    CHECK(total.unequal == direct.unequal);
    CHECK(close(total.sum_d2, direct.sum_d2));
    CHECK(close(total.sum_r2, direct.sum_r2));
    CHECK(close(total.sum_c2, direct.sum_c2));
    CHECK(close(total.sum_rc, direct.sum_rc));
    CHECK(close(total.sum_d, direct.sum_d));
    REQUIRE(total.largest.has_value());
    CHECK(total.largest->at == tensor::Shape{3, 9});
    CHECK(total.largest->difference == direct.largest->difference);
    CHECK_FALSE(measured.has_replicas);
    CHECK(measured.cells.empty());
    CHECK(measured.bytes_read == 2 * 70 * 8);
  }
}

TEST_CASE("every block of the candidate has its own numbers and ranks") {
  MemoryTrace source(make_mesh({{"dp", 2}, {"tp", 2}}));
  trace::TensorEntry entry = wide({4});
  entry.placements = {{"tp", Shard{0, std::nullopt}}};
  source.put(entry, {1, 2, 3, 7});
  const Whole reference({4}, {1, 2, 3, 4});
  const Measurement measured = measure(cpu_backend(), reference.ref(), {&source, &entry}, {});
  REQUIRE(measured.blocks.size() == 2);
  CHECK(measured.blocks[0].owner->boxes == std::vector<tensor::Box>{{{0}, {2}}});
  CHECK(measured.blocks[0].owner->ranks == std::vector<std::uint64_t>{0, 2});
  CHECK(measured.blocks[0].stats.sum_d2 == 0);
  CHECK(measured.blocks[1].owner->boxes == std::vector<tensor::Box>{{{2}, {2}}});
  CHECK(measured.blocks[1].owner->ranks == std::vector<std::uint64_t>{1, 3});
  CHECK(measured.blocks[1].stats.sum_d2 == 9);
  CHECK(measured.blocks[1].stats.largest->at == tensor::Shape{3});
  CHECK(difference_norm(measured.total) == 3);
  CHECK(measured.has_replicas);
  CHECK_FALSE(measured.replicas_differ);
  CHECK(measured.bytes_read == 4 * 8 + 2 * 4 * 8);
}

TEST_CASE("the reference may be sharded in another way than the candidate") {
  Random random(12);
  const Doubles values = random.values(6 * 5);
  MemoryTrace rows(make_mesh({{"tp", 4}}));
  trace::TensorEntry by_rows = wide({6, 5});
  by_rows.placements = {{"tp", Shard{0, std::nullopt}}};
  rows.put(by_rows, values);
  MemoryTrace columns(make_mesh({{"cp", 2}}));
  trace::TensorEntry by_columns = wide({6, 5});
  by_columns.placements = {{"cp", Shard{1, {{4, 1}}}}};
  columns.put(by_columns, values);
  const Measurement measured =
      measure(cpu_backend(), {&rows, &by_rows}, {&columns, &by_columns}, {});
  CHECK(measured.total.elements == 30);
  CHECK(measured.total.unequal == 0);
  CHECK(difference_norm(measured.total) == 0);
}

TEST_CASE("partial shards and scales are applied before the comparison") {
  MemoryTrace source(make_mesh({{"dp", 2}}));
  trace::TensorEntry entry = wide({2});
  entry.placements = {{"dp", trace::Partial{trace::Reduction::kMean}}};
  entry.scale = 0.5;
  source.put_shard(entry, 0, {2, 6});
  source.put_shard(entry, 1, {6, 10});
  const Whole reference({2}, {2, 4});
  const Measurement measured = measure(cpu_backend(), reference.ref(), {&source, &entry}, {});
  CHECK(measured.total.unequal == 0);
  CHECK(measured.blocks.at(0).owner->ranks == std::vector<std::uint64_t>{0, 1});
}

TEST_CASE("a tensor of several reads is measured whole") {
  const std::uint64_t rows = 3;
  const std::uint64_t columns = (std::uint64_t{1} << 18) + 77;  // a row is more than a box
  Doubles r(rows * columns);
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = static_cast<double>(i % 1000);
  Doubles c = r;
  c[columns - 1] += 3;
  c[2 * columns + 262150] -= 4;  // in the second box of the last row
  const Whole reference({rows, columns}, r);
  const Whole candidate({rows, columns}, c);
  const Measurement measured = measure(cpu_backend(), reference.ref(), candidate.ref(), {});
  CHECK(measured.total.elements == r.size());
  CHECK(measured.total.unequal == 2);
  CHECK(difference_norm(measured.total) == 5);
  CHECK(measured.total.largest->at == tensor::Shape{2, 262150});
  CHECK(measured.bytes_read == 2 * r.size() * sizeof(double));
}

TEST_CASE("tensors without elements measure as nothing") {
  const Whole reference({0, 3}, {});
  const Measurement measured = measure(cpu_backend(), reference.ref(), reference.ref(), {});
  CHECK(measured.total.elements == 0);
  CHECK(measured.blocks.empty());
}

TEST_CASE("differences are summed by the cells of a grid too, whatever the candidate's shards") {
  MemoryTrace source(make_mesh({{"tp", 3}}));
  trace::TensorEntry entry = wide({4, 4});
  entry.placements = {{"tp", Shard{1, std::nullopt}}};
  Doubles c(16, 1);
  c[1] += 3;
  c[4] += 4;
  c[15] += 2;
  source.put(entry, c);
  const Whole reference({4, 4}, Doubles(16, 1));
  const Grid grid({4, 4}, {2, 2});
  const Measurement measured = measure(cpu_backend(), reference.ref(), {&source, &entry}, &grid);
  REQUIRE(measured.cells.size() == 4);
  CHECK(measured.cells[0].d2 == 25);
  CHECK(measured.cells[1].d2 == 0);
  CHECK(measured.cells[2].d2 == 0);
  CHECK(measured.cells[3].d2 == 4);
  for (const CellSums& cell : measured.cells) CHECK(cell.a2 == 4);
}

TEST_CASE("a shard that contradicts its manifest ends the measurement with both shapes") {
  MemoryTrace source(make_mesh({{"tp", 2}}));
  trace::TensorEntry entry = wide({4, 3});
  entry.placements = {{"tp", Shard{0, std::nullopt}}};
  source.put(entry, Doubles(12));
  source.put_bits(entry.key, 1, DType::kFloat64, {3, 2}, std::vector<std::byte>(48));
  const Whole reference({4, 3}, Doubles(12));
  test::check_refused(
      [&] {
        measure(cpu_backend(), reference.ref(), {&source, &entry}, {});
      },
      {"rank_1", "[3, 2] f64", "[2, 3] f64"});
  test::check_refused(
      [&] {
        measure(cpu_backend(), {&source, &entry}, reference.ref(), {});
      },
      {"rank_1", "[3, 2] f64", "[2, 3] f64"});
}

TEST_CASE("a lost rank ends the measurement") {
  MemoryTrace source(make_mesh({{"tp", 2}}));
  trace::TensorEntry entry = wide({4});
  entry.placements = {{"tp", Shard{0, std::nullopt}}};
  source.put(entry, Doubles(4));
  source.lose_rank(1);
  const Whole reference({4}, Doubles(4));
  test::check_refused(
      [&] {
        measure(cpu_backend(), reference.ref(), {&source, &entry}, {});
      },
      {"rank lost"});
}

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
      measure(cpu_backend(), {&reference, &whole}, {&source, &entry}, &grid, {&rows, nullptr});
  CHECK(measured.total.sum_d2 == 1);
  CHECK(measured.total.unequal == 1);
  CHECK(measured.total.elements == 8);
  CHECK(measured.cells[0].d2 == 0);
  CHECK(measured.cells[1].d2 == 1);
}

}  // namespace
}  // namespace ttrace::measure::measure_test
