#include "measure/planned_tensor.h"

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::measure::planned_tensor_test {
namespace {

using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;

trace::TensorEntry sharded(const std::string& name, tensor::Shape shape, std::uint64_t dim) {
  trace::TensorEntry entry = make_entry(name, std::move(shape));
  entry.placements = {{"tp", trace::Shard{dim, std::nullopt}}};
  return entry;
}

TEST_CASE("tensors of equal layout share a plan") {
  const MemoryTrace source(make_mesh({{"tp", 2}}));
  const auto plan = planned_tensor(source, sharded("a", {4, 6}, 0));
  CHECK(planned_tensor(source, sharded("b", {4, 6}, 0)) == plan);
  const MemoryTrace same(make_mesh({{"tp", 2}}));
  CHECK(planned_tensor(same, sharded("a", {4, 6}, 0)) == plan);
}

TEST_CASE("whatever a plan depends on gives another one") {
  const MemoryTrace source(make_mesh({{"tp", 2}}));
  const trace::TensorEntry entry = sharded("a", {4, 6}, 0);
  const auto plan = planned_tensor(source, entry);
  CHECK(planned_tensor(source, sharded("a", {6, 4}, 0)) != plan);
  CHECK(planned_tensor(source, sharded("a", {4, 6}, 1)) != plan);
  trace::TensorEntry held = entry;
  held.held_at["tp"] = {0};
  CHECK(planned_tensor(source, held) != plan);
  CHECK(planned_tensor(source, held)->plan().blocks.size() == 1);
  MemoryTrace reordered(make_mesh({{"tp", 2}}));
  reordered.edit().meshes.at("").ranks = {1, 0};
  const auto swapped = planned_tensor(reordered, entry);
  CHECK(swapped->plan().blocks.at(0).terms.at(0).ranks == std::vector<std::uint64_t>{1});
  CHECK(plan->plan().blocks.at(0).terms.at(0).ranks == std::vector<std::uint64_t>{0});
}

TEST_CASE("more layouts than are kept have their own plans") {
  const MemoryTrace source(make_mesh({{"tp", 2}}));
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t rows = 2; rows < 40; rows += 2) {
      const auto plan = planned_tensor(source, sharded("a", {rows}, 0));
      REQUIRE(plan->plan().blocks.size() == 2);
      CHECK(plan->plan().blocks[1].held.parts.at(0).global == tensor::Box{{rows / 2}, {rows / 2}});
    }
  }
}

TEST_CASE("a plan by the rows of an index is read every time") {
  trace::TensorEntry entry = make_entry("a", {4});
  entry.placements = {{"tp", trace::Rows{0, "rows"}}};
  trace::TensorEntry index = sharded("", {4}, 0);
  index.key = trace::index_key(entry.key, "rows");
  index.dtype = tensor::DType::kInt64;
  for (const bool reversed : {false, true}) {
    MemoryTrace source(make_mesh({{"tp", 2}}));
    source.put(index, reversed ? std::vector<double>{3, 2, 1, 0} : std::vector<double>{0, 1, 2, 3});
    const auto plan = planned_tensor(source, entry);
    CHECK(plan->plan().blocks.at(0).held.parts.at(0).global.origin ==
          tensor::Shape{reversed ? 3U : 0U});
  }
}

}  // namespace
}  // namespace ttrace::measure::planned_tensor_test
