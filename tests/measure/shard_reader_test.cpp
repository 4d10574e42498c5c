#include "measure/shard_reader.h"

#include "base/refusal.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::measure::shard_reader_test {
namespace {

using tensor::DType;
using test::encode;
using test::make_entry;
using test::MemoryTrace;

TEST_CASE("a shard is read by boxes and decoded with its scale") {
  MemoryTrace trace;
  trace::TensorEntry entry = make_entry("w", {2, 3});
  entry.scale = 0.5;
  trace.put(entry, {1, 2, 3, 4, 5, 6});
  ShardReader reader(trace, entry, 0, layout::LocalLayout{{2, 3}, {}, {}});
  CHECK(reader.rank() == 0);
  CHECK(reader.bytes_read() == 0);
  std::vector<std::byte> bits;
  reader.read_bits({{0, 1}, {2, 2}}, bits);
  CHECK(bits.size() == 16);
  std::vector<double> values(4);
  reader.decode(bits, values);
  CHECK(values == std::vector<double>{1, 1.5, 2.5, 3});
  reader.read_bits({{0, 0}, {1, 1}}, bits);
  CHECK(bits == encode(DType::kFloat32, {1}));
  CHECK(reader.bytes_read() == 20);
}

TEST_CASE("a shard of another shape is refused with both shapes") {
  MemoryTrace trace;
  const trace::TensorEntry entry = make_entry("w", {2, 3});
  trace.put(entry, std::vector<double>(6));
  test::check_refused(
      [&] {
        ShardReader(trace, entry, 0, layout::LocalLayout{{3, 2}, {}, {}});
      },
      {"memory/rank_0", "/step_000000/output/w", "dataset is [2, 3] f32",
       "gives rank 0 [3, 2] f32"});
  test::check_refused(
      [&] {
        ShardReader(trace, entry, 0, layout::LocalLayout{{6}, {}, {}});
      },
      {"[2, 3]", "[6]"});
  test::check_refused(
      [&] {
        ShardReader(trace, entry, 0, layout::LocalLayout{{}, {}, {}});
      },
      {"[2, 3]", "rank 0 []"});
}

TEST_CASE("a shard of another element type is refused with both types") {
  MemoryTrace trace;
  const trace::TensorEntry entry = make_entry("w", {2});
  trace.put_bits(entry.key, 0, DType::kFloat64, {2}, encode(DType::kFloat64, {1, 2}));
  test::check_refused(
      [&] {
        ShardReader(trace, entry, 0, layout::LocalLayout{{2}, {}, {}});
      },
      {"dataset is [2] f64", "[2] f32"});
}

TEST_CASE("a shard that is missing or on a lost rank is refused") {
  MemoryTrace trace;
  const trace::TensorEntry entry = make_entry("w", {2});
  test::check_refused(
      [&] {
        ShardReader(trace, entry, 0, layout::LocalLayout{{2}, {}, {}});
      },
      {"/step_000000/output/w", "no such dataset"});
  trace.put(entry, {1, 2});
  CHECK_NOTHROW(ShardReader(trace, entry, 0, layout::LocalLayout{{2}, {}, {}}));
  trace.lose_rank(0);
  test::check_refused(
      [&] {
        ShardReader(trace, entry, 0, layout::LocalLayout{{2}, {}, {}});
      },
      {"memory: rank lost"});
}

using Doubles = std::vector<double>;

// A dataset that holds [start, stop) of an array whose elements are their own numbers.
struct FlatDataset {
  FlatDataset(tensor::Shape of, std::uint64_t start, std::uint64_t stop)
      : shape(std::move(of)), range{start, stop - start} {
    Doubles values;
    for (std::uint64_t i = start; i < stop; ++i) values.push_back(static_cast<double>(i));
    const auto dtype = tensor::DType::kFloat64;
    trace.put_bits(test::make_key("w"), 0, dtype, {values.size()}, test::encode(dtype, values));
    dataset = trace.open(0, dataset_path(test::make_key("w")));
  }

  Doubles read(const tensor::Box& box) {
    Doubles out(tensor::volume(box), -1);
    bytes = read_flat_box(*dataset, shape, range, box, std::as_writable_bytes(std::span(out)));
    return out;
  }

  test::MemoryTrace trace;
  tensor::Shape shape;
  layout::Range range;
  std::unique_ptr<trace::Dataset> dataset;
  std::uint64_t bytes = 0;
};

TEST_CASE("a box that is contiguous in the array is one read of its elements") {
  FlatDataset flat({4, 3}, 2, 11);
  CHECK(flat.read({{1, 0}, {2, 3}}) == Doubles{3, 4, 5, 6, 7, 8});
  CHECK(flat.bytes == 48);
  CHECK(flat.read({{0, 2}, {1, 1}}) == Doubles{2});
  CHECK(flat.read({{3, 0}, {1, 2}}) == Doubles{9, 10});
  CHECK(flat.bytes == 16);
}

TEST_CASE("rows of a box are taken out of what lies between them") {
  FlatDataset flat({4, 3}, 0, 12);
  CHECK(flat.read({{1, 1}, {3, 1}}) == Doubles{4, 7, 10});
  CHECK(flat.bytes == 56);  // elements 4 to 10
  CHECK(flat.read({{0, 1}, {2, 2}}) == Doubles{1, 2, 4, 5});
}

TEST_CASE("a box of three dimensions is read in row-major order") {
  FlatDataset flat({2, 3, 4}, 1, 24);
  CHECK(flat.read({{0, 1, 2}, {2, 2, 2}}) == Doubles{6, 7, 10, 11, 18, 19, 22, 23});
  CHECK(flat.read({{0, 1, 0}, {2, 1, 4}}) == Doubles{4, 5, 6, 7, 16, 17, 18, 19});
  CHECK(flat.read({{1, 0, 0}, {1, 3, 4}}).size() == 12);
  CHECK(flat.bytes == 96);
}

TEST_CASE("rows far apart in a large array are read one by one") {
  // Two columns of 4 rows that are a megabyte each: what lies between them is not read.
  const std::uint64_t width = std::uint64_t{1} << 17;
  FlatDataset flat({4, width}, 0, 4 * width);
  const Doubles read = flat.read({{0, 5}, {4, 2}});
  Doubles expected;
  for (std::uint64_t row = 0; row < 4; ++row) {
    expected.push_back(static_cast<double>(row * width + 5));
    expected.push_back(static_cast<double>(row * width + 6));
  }
  CHECK(read == expected);
  CHECK(flat.bytes == 64);
}

TEST_CASE("nothing is read of an empty box, and a scalar is one element") {
  FlatDataset flat({4, 3}, 0, 12);
  CHECK(flat.read({{1, 0}, {0, 3}}).empty());
  CHECK(flat.bytes == 0);
  FlatDataset scalar({}, 0, 1);
  CHECK(scalar.read({{}, {}}) == Doubles{0});
}

}  // namespace
}  // namespace ttrace::measure::shard_reader_test
