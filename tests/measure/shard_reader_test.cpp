#include "measure/shard_reader.h"

#include "base/refusal.h"
#include "support/memory_trace.h"

namespace ttrace::measure {
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

}  // namespace
}  // namespace ttrace::measure
