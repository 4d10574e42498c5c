#include "base/refusal.h"
#include "layout/view.h"
#include "support/memory_trace.h"

namespace ttrace::layout::view_microbatches_test {
namespace {

using test::contains;
using trace::Microbatches;
using trace::TensorEntry;
using How = Microbatches::How;

TensorEntry whole_of(How how, std::vector<std::uint64_t> numbers, std::uint64_t dim = 0) {
  TensorEntry entry = test::make_entry("w", {4, 3});
  entry.microbatches = Microbatches{how, dim, std::move(numbers)};
  return entry;
}

TensorEntry part_of(std::uint64_t microbatch, tensor::Shape shape) {
  TensorEntry entry = test::make_entry("w", std::move(shape));
  entry.key.microbatch = microbatch;
  return entry;
}

TEST_CASE("the parts have the key of the whole with each micro-batch, in the order given") {
  TensorEntry whole = whole_of(How::kShard, {3, 0, 2});
  whole.key.call = 1;
  const auto keys = part_keys(*view_of(whole));
  REQUIRE(keys.size() == 3);
  CHECK(keys[0].microbatch == 3U);
  CHECK(keys[1].microbatch == 0U);
  CHECK(keys[2].microbatch == 2U);
  CHECK(keys[1].name == "w");
  CHECK(keys[1].call == 1);
}

TEST_CASE("parts one after the other are tiles along their dimension") {
  const TensorEntry whole = whole_of(How::kShard, {0, 1}, 1);
  const TensorEntry first = part_of(0, {4, 2});
  const TensorEntry second = part_of(1, {4, 1});
  const Composed composed =
      compose_microbatches(*view_of(whole), {view_of(first), view_of(second)});
  REQUIRE(composed.view);
  CHECK(composed.problem.empty());
  CHECK(composed.view->key == whole.key);
  CHECK(composed.view->shape == tensor::Shape{4, 3});
  CHECK(composed.view->microbatches == whole.microbatches);
  const auto& tiles = std::get<Mosaic>(composed.view->how).tiles;
  REQUIRE(tiles.size() == 2);
  CHECK(tiles[0].target == tensor::Box{{0, 0}, {4, 2}});
  CHECK(tiles[1].target == tensor::Box{{0, 2}, {4, 1}});
  CHECK(tiles[1].origin == tensor::Shape{0, 0});
  CHECK(stored_in(*composed.view) == std::vector<const TensorEntry*>{&first, &second});
}

TEST_CASE("sums and means are sums with a factor") {
  const TensorEntry a = part_of(0, {4, 3});
  const TensorEntry b = part_of(1, {4, 3});
  const auto factor = [&](How how) {
    const TensorEntry whole = whole_of(how, {0, 1});
    const Composed composed = compose_microbatches(*view_of(whole), {view_of(a), view_of(b)});
    return std::get<Sum>(composed.view->how).factor;
  };
  CHECK(factor(How::kSum) == 1);
  CHECK(factor(How::kMean) == 0.5);
}

TEST_CASE("what is composed has the coarsest precision of its parts") {
  const TensorEntry whole = whole_of(How::kSum, {0, 1});
  const TensorEntry a = part_of(0, {4, 3});
  TensorEntry b = part_of(1, {4, 3});
  b.computed_in = tensor::DType::kBFloat16;
  CHECK(compose_microbatches(*view_of(whole), {view_of(a), view_of(b)}).view->computed_in ==
        tensor::DType::kBFloat16);
}

TEST_CASE("parts that do not fit together are reported with their shapes") {
  const TensorEntry a = part_of(0, {4, 3});
  const auto problem = [&](const TensorEntry& whole, const TensorEntry& b) {
    const Composed composed = compose_microbatches(*view_of(whole), {view_of(a), view_of(b)});
    CHECK(composed.view == nullptr);
    return composed.problem;
  };
  const std::string sum = problem(whole_of(How::kSum, {0, 1}), part_of(1, {4, 2}));
  CHECK(contains(sum, "mb 1 is [4, 2]"));
  CHECK(contains(sum, "mb 0 is [4, 3]"));
  CHECK(contains(sum, "cannot be added"));
  const std::string joined = problem(whole_of(How::kShard, {0, 1}, 1), part_of(1, {5, 3}));
  CHECK(contains(joined, "mb 1 is [5, 3]"));
  CHECK(contains(joined, "cannot be joined along dimension 1"));
  CHECK(contains(problem(whole_of(How::kShard, {0, 1}, 0), part_of(1, {4})), "is [4]"));
  CHECK(contains(problem(whole_of(How::kShard, {0, 1}, 2), part_of(1, {4, 3})), "dimension 2"));
}

TEST_CASE("one part alone is the whole") {
  const TensorEntry whole = whole_of(How::kShard, {5});
  const TensorEntry only = part_of(5, {4, 3});
  const Composed composed = compose_microbatches(*view_of(whole), {view_of(only)});
  REQUIRE(composed.view);
  CHECK(composed.view->shape == whole.shape);
}

}  // namespace
}  // namespace ttrace::layout::view_microbatches_test
