#include "layout/layout_problems.h"

#include "base/refusal.h"
#include "support/memory_trace.h"

namespace ttrace::layout::layout_problems_test {
namespace {

using test::contains;
using test::make_entry;
using test::make_mesh;
using trace::Partial;
using trace::Reduction;
using trace::Shard;

trace::Manifest manifest_on(std::vector<trace::MeshAxis> axes) {
  trace::Manifest manifest;
  manifest.meshes.emplace("", make_mesh(std::move(axes)));
  return manifest;
}

trace::TensorEntry placed(const std::string& name, tensor::Shape shape,
                          std::map<std::string, trace::Placement> placements) {
  trace::TensorEntry entry = make_entry(name, std::move(shape));
  entry.placements = std::move(placements);
  return entry;
}

TEST_CASE("layouts that fit have no problems") {
  trace::Manifest manifest = manifest_on({{"dp", 2}, {"tp", 3}});
  manifest.tensors = {
      make_entry("a", {5}), placed("b", {7, 3}, {{"tp", Shard{0, std::nullopt}}}),
      placed("c", {7}, {{"tp", Shard{0, {{7, 0, 0}}}}, {"dp", Partial{Reduction::kSum}}})};
  CHECK(layout_problems(manifest).empty());
}

TEST_CASE("each contradiction is reported with its pointer and tensor") {
  trace::Manifest manifest = manifest_on({{"dp", 2}, {"tp", 2}});
  manifest.tensors = {
      placed("fits", {4}, {{"tp", Shard{0, {{1, 3}}}}}),
      placed("sum", {4}, {{"tp", Shard{0, {{1, 2}}}}}),
      placed("count", {4}, {{"tp", Shard{0, {{1, 2, 1}}}}}),
      placed("mixed", {4}, {{"tp", Partial{Reduction::kMax}}, {"dp", Partial{Reduction::kMean}}})};
  const auto problems = layout_problems(manifest);
  REQUIRE(problems.size() == 3);
  CAPTURE(problems[0], problems[1], problems[2]);
  CHECK(problems[0].find("/tensors/1/placements/tp: ") == 0);
  CHECK(contains(problems[0], "add up to 3"));
  CHECK(contains(problems[0], "sum · output · step 0, shape [4]"));
  CHECK(problems[1].find("/tensors/2/placements/tp: ") == 0);
  CHECK(contains(problems[1], "3 shard sizes for 2 coordinates"));
  CHECK(problems[2].find("/tensors/3/placements: ") == 0);
  CHECK(contains(problems[2], "cannot be combined"));
}

TEST_CASE("a contradiction that only later coordinates show is found") {
  trace::Manifest manifest = manifest_on({{"a", 2}, {"b", 2}});
  // 5 is cut into 3 and 2: the sizes fit the first part and not the second.
  manifest.tensors = {placed("w", {5}, {{"a", Shard{0, std::nullopt}}, {"b", Shard{0, {{1, 2}}}}})};
  const auto problems = layout_problems(manifest);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].find("/tensors/0/placements/b: ") == 0);
}

TEST_CASE("sizes count the coordinates that held_at lists") {
  trace::Manifest manifest = manifest_on({{"pp", 4}});
  manifest.tensors = {placed("w", {5}, {{"pp", Shard{0, {{2, 3}}}}})};
  CHECK(layout_problems(manifest).size() == 1);
  manifest.tensors[0].held_at = {{"pp", {0, 3}}};
  CHECK(layout_problems(manifest).empty());
}

}  // namespace
}  // namespace ttrace::layout::layout_problems_test
