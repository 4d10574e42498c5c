#include "measure/block_reader.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::measure {
namespace {

using Blocks = std::vector<std::size_t>;

layout::Plan plan_of(tensor::Shape shape, const trace::Placement& placement, std::uint64_t ranks) {
  trace::TensorEntry entry = test::make_entry("w", std::move(shape));
  entry.placements = {{"tp", placement}};
  return layout::plan_layout(entry, test::make_mesh({{"tp", ranks}}));
}

Blocks touched(const layout::Plan& plan, const tensor::Box& box) {
  const PartIndex index(plan);
  Blocks blocks;
  index.for_each(box, [&](std::size_t block, const layout::Part& part) {
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
  index.for_each({{0}, {4}}, [&](std::size_t, const layout::Part&) { return ++visits < 2; });
  CHECK(visits == 2);
}

TEST_CASE("a scalar has one part, a tensor without elements none") {
  CHECK(touched(plan_of({}, trace::Replicate{}, 2), {{}, {}}) == Blocks{0});
  CHECK(touched(plan_of({0}, trace::Replicate{}, 2), {{0}, {0}}).empty());
}

}  // namespace
}  // namespace ttrace::measure
