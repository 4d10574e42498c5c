#include "measure/logical_tensor.h"

#include "base/refusal.h"
#include "support/memory_trace.h"

namespace ttrace::measure {
namespace {

using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;
using Doubles = std::vector<double>;

const Doubles kValues{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23};  // of shape [3, 4]

trace::TensorEntry sharded(std::uint64_t dim) {
  trace::TensorEntry entry = make_entry("w", {3, 4});
  entry.placements = {{"tp", trace::Shard{dim, std::nullopt}}};
  return entry;
}

Doubles read(LogicalTensor& tensor, const tensor::Box& box) {
  Doubles out(tensor::volume(box), -1);
  tensor.read(box, out);
  return out;
}

TEST_CASE("a box across shards is put together") {
  for (const std::uint64_t dim : {0U, 1U}) {
    CAPTURE(dim);
    MemoryTrace source(make_mesh({{"tp", 2}}));
    const trace::TensorEntry entry = sharded(dim);
    source.put(entry, kValues);
    LogicalTensor tensor(source, entry);
    CHECK(read(tensor, tensor::whole({3, 4})) == kValues);
    CHECK(read(tensor, {{1, 1}, {2, 2}}) == Doubles{11, 12, 21, 22});
    CHECK(read(tensor, {{0, 3}, {3, 1}}) == Doubles{3, 13, 23});
    CHECK(read(tensor, {{2, 0}, {1, 1}}) == Doubles{20});
    CHECK(read(tensor, {{2, 0}, {0, 1}}).empty());
  }
}

TEST_CASE("integers across shards are put together") {
  MemoryTrace source(make_mesh({{"tp", 3}}));
  trace::TensorEntry entry = sharded(0);
  entry.dtype = tensor::DType::kInt64;
  source.put(entry, kValues);
  LogicalTensor tensor(source, entry);
  std::vector<std::int64_t> out(4);
  tensor.read_integers({{1, 2}, {2, 2}}, out);
  CHECK(out == std::vector<std::int64_t>{12, 13, 22, 23});
}

TEST_CASE("a scalar is read") {
  MemoryTrace source;
  const trace::TensorEntry entry = make_entry("loss", {});
  source.put(entry, {2.5});
  LogicalTensor tensor(source, entry);
  CHECK(read(tensor, tensor::whole({})) == Doubles{2.5});
}

TEST_CASE("only shards that a box needs are opened and read") {
  MemoryTrace source(make_mesh({{"tp", 3}}));
  const trace::TensorEntry entry = sharded(0);
  source.put(entry, kValues);
  source.lose_rank(2);
  LogicalTensor tensor(source, entry);
  CHECK(tensor.bytes_read() == 0);
  CHECK(read(tensor, {{0, 0}, {2, 4}}) == Doubles(kValues.begin(), kValues.begin() + 8));
  CHECK(tensor.bytes_read() == 32);
  test::check_refused([&] { read(tensor, {{2, 0}, {1, 1}}); }, {"rank lost"});
}

TEST_CASE("copies of a shard are read from the first rank alone") {
  MemoryTrace source(make_mesh({{"dp", 2}}));
  const trace::TensorEntry entry = make_entry("w", {3, 4});
  source.put(entry, kValues);
  source.lose_rank(1);
  LogicalTensor tensor(source, entry);
  CHECK(read(tensor, tensor::whole({3, 4})) == kValues);
  CHECK(tensor.bytes_read() == 48);
}

}  // namespace
}  // namespace ttrace::measure
