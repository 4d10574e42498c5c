#include "base/refusal.h"
#include "layout/spelled.h"
#include "measure/shard_reader.h"
#include "support/memory_trace.h"

namespace ttrace::measure::resolved_plan_test {
namespace {

using test::check_refused;
using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;
using Doubles = std::vector<double>;

// Six tokens on two experts' ranks, each with a copy on the other coordinate of "dp".
struct Routed {
  explicit Routed(const std::vector<Doubles>& received, tensor::DType dtype = tensor::DType::kInt64)
      : trace(make_mesh({{"dp", 2}, {"ep", 2}}), "run") {
    tokens = make_entry("tokens", {6, 2});
    tokens.placements = {{"ep", trace::Rows{0, "routing"}}};
    trace::TensorEntry index = make_entry("routing", {received[0].size() + received[1].size()},
                                          trace::Kind::kIndex, dtype);
    index.placements = {{"ep", trace::Shard{0, {{received[0].size(), received[1].size()}}}}};
    trace.edit().tensors = {tokens, index};
    for (std::uint64_t rank = 0; rank < 4; ++rank) put_index(rank, received[rank % 2]);
  }

  void put_index(std::uint64_t rank, const Doubles& numbers) {
    trace.put_bits(test::make_key("routing", trace::Kind::kIndex), rank, tensor::DType::kInt64,
                   {numbers.size()}, test::encode(tensor::DType::kInt64, numbers));
  }
  std::string plan() const { return test::spelled(resolved_plan(trace, tokens)); }

  MemoryTrace trace;
  trace::TensorEntry tokens;
};

TEST_CASE("rows are where the ranks' parts of the index say") {
  const Routed routed({{4, 5, -1, 0}, {1, 2, 3}});
  CHECK(routed.plan() == "[4:6, 0:2][0:1, 0:2] = 0 2; [1:4, 0:2] = 1 3");
}

TEST_CASE("a rank that got no rows, or padding alone, is in no block") {
  CHECK(Routed({{0, 1, 2, 3, 4, 5}, {}}).plan() == "[0:6, 0:2] = 0 2");
  CHECK(Routed({{-1, -1}, {5, 0, 1, 2, 3, 4}}).plan() == "[5:6, 0:2][0:5, 0:2] = 1 3");
}

TEST_CASE("a tensor without rows needs no index") {
  MemoryTrace trace(make_mesh({{"tp", 2}}));
  trace::TensorEntry entry = make_entry("w", {4});
  entry.placements = {{"tp", trace::Shard{0, std::nullopt}}};
  CHECK(test::spelled(resolved_plan(trace, entry)) == "[0:2] = 0; [2:4] = 1");
}

TEST_CASE("a row that no rank holds, or two, is refused with trace, tensor and index") {
  check_refused(
      [] {
        Routed({{4, 5, 0}, {1, 3}}).plan();
      },
      {"run: tokens · output · step 0: ", "routing: row 2 of dimension 0", "held by no rank"});
  check_refused(
      [] {
        Routed({{4, 5, 0}, {1, 2, 3, 4}}).plan();
      },
      {"row 4 of dimension 0", "held twice", "rank 0 and rank 1"});
  check_refused([] { Routed({{4, 5, 0, 4}, {1, 2, 3}}).plan(); }, {"row 4", "held twice"});
}

TEST_CASE("a row beyond the tensor is refused with its rank and place") {
  check_refused(
      [] {
        Routed({{4, 5, 0}, {1, 2, 6}}).plan();
      },
      {"run: tokens", "routing: rank 1", "row 6", "element 2", "6 rows"});
}

TEST_CASE("copies of the index that differ are refused with both ranks") {
  Routed routed({{4, 5, 0}, {1, 2, 3}});
  routed.put_index(3, {1, 3, 2});
  check_refused([&] { routed.plan(); }, {"ranks 1 and 3", "indices differ"});
}

TEST_CASE("an index that is lost or of another shape or type is refused") {
  Routed lost({{4, 5, 0}, {1, 2, 3}});
  lost.trace.lose_rank(1);
  check_refused([&] { lost.plan(); }, {"run: tokens", "rank lost"});
  Routed longer({{4, 5, 0}, {1, 2, 3}});
  longer.put_index(2, {4, 5, 0, 1});
  check_refused([&] { longer.plan(); }, {"index/routing", "[4]", "rank 2 [3]"});
  check_refused(
      [] {
        Routed({{4, 5, 0}, {1, 2, 3}}, tensor::DType::kInt32).plan();
      },
      {"[3] i64", "[3] i32"});
}

TEST_CASE("rows without their index in the manifest are refused with its key") {
  Routed routed({{4, 5, 0}, {1, 2, 3}});
  routed.trace.edit().tensors.pop_back();
  check_refused([&] { routed.plan(); }, {"run", "no tensor routing · index · step 0"});
}

}  // namespace
}  // namespace ttrace::measure::resolved_plan_test
