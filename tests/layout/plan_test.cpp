#include "layout/plan.h"

#include "base/refusal.h"
#include "layout/spelled.h"
#include "support/memory_trace.h"

namespace ttrace::layout::plan_test {
namespace {

using tensor::Box;
using test::make_entry;
using test::make_mesh;
using test::spelled;
using trace::Only;
using trace::Partial;
using trace::Reduction;
using trace::Replicate;
using trace::Shard;
using trace::TensorEntry;
using Ranks = std::vector<std::uint64_t>;

const Shard kRows{0, std::nullopt};
const Shard kColumns{1, std::nullopt};

using Boxes = std::vector<Box>;

Boxes held_boxes(const TensorEntry& entry, const trace::Mesh& mesh, const Ranks& coordinates) {
  Boxes boxes;
  const auto held = local_layout(entry, mesh, coordinates);
  for (const PlacedBox& part : held.value().parts) boxes.push_back(part.global);
  return boxes;
}

TEST_CASE("a tensor of one rank is one block") {
  const Plan plan = plan_layout(make_entry("w", {6, 4}), {});
  CHECK(spelled(plan) == "[0:6, 0:4] = 0");
  CHECK(plan.blocks[0].held.parts[0].local == tensor::whole({6, 4}));
  CHECK(plan.combination.factor == 1);
  CHECK_FALSE(plan.combination.maximum);
}

TEST_CASE("axes that a tensor does not name replicate it") {
  const trace::Mesh mesh = make_mesh({{"dp", 2}, {"tp", 2}});
  TensorEntry entry = make_entry("w", {6, 4});
  CHECK(spelled(plan_layout(entry, mesh)) == "[0:6, 0:4] = 0 1 2 3");
  entry.placements = {{"dp", Replicate{}}, {"tp", kRows}};
  CHECK(spelled(plan_layout(entry, mesh)) == "[0:3, 0:4] = 0 2; [3:6, 0:4] = 1 3");
}

TEST_CASE("parts have their place in the rank's array") {
  TensorEntry entry = make_entry("w", {6, 4});
  entry.placements = {{"tp", kColumns}};
  const Plan plan = plan_layout(entry, make_mesh({{"dp", 2}, {"tp", 2}}));
  const Block& block = plan.blocks[1];
  CHECK(block.terms[0].ranks == Ranks{1, 3});
  CHECK(block.held.shape == tensor::Shape{6, 2});
  CHECK(block.held.parts == std::vector<PlacedBox>{{{{0, 2}, {6, 2}}, {{0, 0}, {6, 2}}}});
}

TEST_CASE("a table of ranks names the ranks") {
  trace::Mesh mesh = make_mesh({{"tp", 3}});
  mesh.ranks = {7, 0, 5};
  TensorEntry entry = make_entry("w", {6});
  entry.placements = {{"tp", kRows}};
  CHECK(spelled(plan_layout(entry, mesh)) == "[0:2] = 7; [2:4] = 0; [4:6] = 5");
}

TEST_CASE("held_at restricts an axis and its shards go to the listed coordinates") {
  const trace::Mesh mesh = make_mesh({{"pp", 3}, {"tp", 2}});
  TensorEntry entry = make_entry("w", {4});
  entry.held_at = {{"pp", {1}}};
  CHECK(spelled(plan_layout(entry, mesh)) == "[0:4] = 2 3");
  entry.held_at = {{"pp", {0, 2}}};
  entry.placements = {{"pp", kRows}};
  CHECK(spelled(plan_layout(entry, mesh)) == "[0:2] = 0 1; [2:4] = 4 5");
  CHECK(held_boxes(entry, mesh, {2, 0}) == Boxes{{{2}, {2}}});
  CHECK_FALSE(local_layout(entry, mesh, {1, 0}).has_value());
}

TEST_CASE("only is one coordinate of its axis") {
  const trace::Mesh mesh = make_mesh({{"dp", 2}, {"tp", 2}});
  TensorEntry entry = make_entry("w", {4});
  entry.placements = {{"dp", Only{1}}, {"tp", kRows}};
  CHECK(spelled(plan_layout(entry, mesh)) == "[0:2] = 2; [2:4] = 3");
  CHECK_FALSE(local_layout(entry, mesh, {0, 1}).has_value());
  CHECK(held_boxes(entry, mesh, {1, 1}) == Boxes{{{2}, {2}}});
}

TEST_CASE("a partial axis gives one term for each coordinate") {
  const trace::Mesh mesh = make_mesh({{"dp", 2}, {"tp", 2}});
  TensorEntry entry = make_entry("w", {4});
  entry.placements = {{"tp", Partial{Reduction::kSum}}};
  CHECK(spelled(plan_layout(entry, mesh)) == "[0:4] = 0 2 + 1 3");
  entry.placements = {{"tp", Partial{Reduction::kSum}}, {"dp", kRows}};
  CHECK(spelled(plan_layout(entry, mesh)) == "[0:2] = 0 + 1; [2:4] = 2 + 3");
  entry.placements = {{"tp", Partial{Reduction::kSum}}, {"dp", Partial{Reduction::kSum}}};
  CHECK(spelled(plan_layout(entry, mesh)) == "[0:4] = 0 + 1 + 2 + 3");
}

TEST_CASE("terms combine as the reductions say") {
  const trace::Mesh mesh = make_mesh({{"dp", 4}, {"cp", 5}, {"tp", 2}});
  const auto combination = [&mesh](TensorEntry entry,
                                   std::map<std::string, trace::Placement> placements) {
    entry.placements = std::move(placements);
    return plan_layout(entry, mesh).combination;
  };
  const TensorEntry entry = make_entry("w", {4});
  const Partial sum{Reduction::kSum};
  const Partial mean{Reduction::kMean};
  const Partial maximum{Reduction::kMax};
  CHECK(combination(entry, {{"dp", sum}}).factor == 1);
  CHECK(combination(entry, {{"dp", mean}}).factor == 0.25);
  CHECK(combination(entry, {{"dp", mean}, {"tp", mean}}).factor == 0.125);
  CHECK(combination(entry, {{"dp", mean}, {"tp", sum}}).factor == 0.25);
  CHECK(combination(entry, {{"dp", maximum}, {"tp", maximum}}).maximum);
  CHECK(combination(entry, {{"dp", maximum}}).factor == 1);
  TensorEntry held = entry;
  held.held_at = {{"dp", {1, 3}}};
  CHECK(combination(held, {{"dp", mean}}).factor == 0.5);  // a mean over those that hold it
  test::check_refused(
      [&] {
        combination(entry, {{"dp", maximum}, {"tp", sum}});
      },
      {"placements: a maximum", "cannot be combined"});
  test::check_refused(
      [&] {
        combination(entry, {{"dp", mean}, {"tp", maximum}});
      },
      {"cannot be combined"});
}

TEST_CASE("several axes cut one dimension in mesh order") {
  TensorEntry entry = make_entry("w", {10});
  entry.placements = {{"a", kRows}, {"b", kRows}};
  // First halves of 5, each then 2 + 2 + 1.
  CHECK(spelled(plan_layout(entry, make_mesh({{"a", 2}, {"b", 3}}))) ==
        "[0:2] = 0; [2:4] = 1; [4:5] = 2; [5:7] = 3; [7:9] = 4; [9:10] = 5");
  // The other order of axes: 4 + 4 + 2, each halved.
  CHECK(spelled(plan_layout(entry, make_mesh({{"b", 3}, {"a", 2}}))) ==
        "[0:2] = 0; [2:4] = 1; [4:6] = 2; [6:8] = 3; [8:9] = 4; [9:10] = 5");
}

TEST_CASE("given sizes of a later axis must fit what the earlier one left") {
  TensorEntry entry = make_entry("w", {8});
  entry.placements = {{"a", kRows}, {"b", Shard{0, {{1, 3}}}}};
  const trace::Mesh mesh = make_mesh({{"a", 2}, {"b", 2}});
  CHECK(spelled(plan_layout(entry, mesh)) == "[0:1] = 0; [1:4] = 1; [4:5] = 2; [5:8] = 3");
  entry.shape = {9};
  test::check_refused([&] { plan_layout(entry, mesh); }, {"placements/b: ", "add up to 4"});
  test::check_refused([&] { local_layout(entry, mesh, {0, 0}); }, {"placements/b: "});
}

TEST_CASE("ranks of empty shards hold an empty box and appear in no block") {
  const trace::Mesh mesh = make_mesh({{"tp", 4}});
  TensorEntry entry = make_entry("w", {2, 3});
  entry.placements = {{"tp", kRows}};
  CHECK(spelled(plan_layout(entry, mesh)) == "[0:1, 0:3] = 0; [1:2, 0:3] = 1");
  CHECK(local_layout(entry, mesh, {3}) == LocalLayout{{0, 3}, {}, {}});
  entry.placements = {{"tp", Shard{0, {{1, 0, 0, 1}}}}};
  CHECK(spelled(plan_layout(entry, mesh)) == "[0:1, 0:3] = 0; [1:2, 0:3] = 3");
}

TEST_CASE("a tensor without elements has no blocks") {
  TensorEntry entry = make_entry("w", {0, 3});
  entry.placements = {{"tp", kColumns}};
  const trace::Mesh mesh = make_mesh({{"tp", 2}});
  CHECK(plan_layout(entry, mesh).blocks.empty());
  CHECK(local_layout(entry, mesh, {1}) == LocalLayout{{0, 1}, {}, {}});
}

TEST_CASE("a scalar is held whole") {
  TensorEntry entry = make_entry("loss", {});
  entry.placements = {{"dp", Partial{Reduction::kMean}}};
  const Plan plan = plan_layout(entry, make_mesh({{"dp", 2}, {"tp", 2}}));
  CHECK(spelled(plan) == "[] = 0 1 + 2 3");
  CHECK(plan.combination.factor == 0.5);
}

}  // namespace
}  // namespace ttrace::layout::plan_test
