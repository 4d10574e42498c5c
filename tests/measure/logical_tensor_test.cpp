#include "measure/logical_tensor.h"

#include "base/refusal.h"
#include "measure/block_reader.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::measure::logical_tensor_test {
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

TEST_CASE("of replicas only the first is read") {
  MemoryTrace source(make_mesh({{"dp", 2}}));
  const trace::TensorEntry entry = make_entry("w", {3, 4});
  source.put(entry, kValues);
  source.lose_rank(1);
  LogicalTensor tensor(source, entry);
  CHECK(read(tensor, tensor::whole({3, 4})) == kValues);
  CHECK(tensor.bytes_read() == 48);
}

using Blocks = std::vector<std::size_t>;

layout::Plan plan_of(tensor::Shape shape, const trace::Placement& placement, std::uint64_t ranks) {
  trace::TensorEntry entry = test::make_entry("w", std::move(shape));
  entry.placements = {{"tp", placement}};
  return layout::plan_layout(entry, test::make_mesh({{"tp", ranks}}));
}

Blocks touched(const layout::Plan& plan, const tensor::Box& box) {
  const PartIndex index(plan);
  Blocks blocks;
  index.for_each(box, [&](std::size_t block, const layout::PlacedBox& part) {
    CHECK(tensor::intersect(part.global, box).has_value());
    blocks.push_back(block);
    return true;
  });
  return blocks;
}

TEST_CASE("a box touches the parts it shares elements with, in their order") {
  const layout::Plan plan = plan_of({12, 2}, trace::Shard{0, std::nullopt}, 4);
  CHECK(touched(plan, {{0, 0}, {12, 2}}) == Blocks{0, 1, 2, 3});
  CHECK(touched(plan, {{2, 1}, {2, 1}}) == Blocks{0, 1});
  CHECK(touched(plan, {{3, 0}, {3, 2}}) == Blocks{1});
  CHECK(touched(plan, {{11, 0}, {1, 1}}) == Blocks{3});
  CHECK(touched(plan, {{3, 0}, {0, 2}}).empty());
}

TEST_CASE("parts of one block are visited each") {
  const layout::Plan plan = plan_of({8}, trace::Strided{0, 2}, 2);
  CHECK(touched(plan, {{0}, {8}}) == Blocks{0, 1, 0, 1});
  CHECK(touched(plan, {{3}, {2}}) == Blocks{1, 0});
}

TEST_CASE("a part that starts long before the box is found") {
  const layout::Plan plan = plan_of({100}, trace::Shard{0, {{1, 97, 1, 1}}}, 4);
  CHECK(touched(plan, {{97}, {1}}) == Blocks{1});
  CHECK(touched(plan, {{97}, {2}}) == Blocks{1, 2});
  CHECK(touched(plan, {{98}, {2}}) == Blocks{2, 3});
}

TEST_CASE("boxes are found whatever dimension they are cut along") {
  const trace::Boxes boxes{
      {{{0, 0}, {2, 4}}, {{2, 0}, {2, 1}}, {{2, 1}, {2, 2}}, {{2, 3}, {2, 1}}}};
  const layout::Plan plan = plan_of({4, 4}, boxes, 4);
  CHECK(touched(plan, {{1, 2}, {2, 2}}) == Blocks{0, 2, 3});
  CHECK(touched(plan, {{3, 0}, {1, 1}}) == Blocks{1});
}

TEST_CASE("visiting stops where that is asked") {
  const layout::Plan plan = plan_of({4}, trace::Shard{0, std::nullopt}, 4);
  const PartIndex index(plan);
  int visits = 0;
  index.for_each({{0}, {4}}, [&](std::size_t, const layout::PlacedBox&) { return ++visits < 2; });
  CHECK(visits == 2);
}

TEST_CASE("a scalar has one part, a tensor without elements none") {
  CHECK(touched(plan_of({}, trace::Replicate{}, 2), {{}, {}}) == Blocks{0});
  CHECK(touched(plan_of({0}, trace::Replicate{}, 2), {{0}, {0}}).empty());
}

}  // namespace
}  // namespace ttrace::measure::logical_tensor_test
