#include "layout/absent_shards.h"

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::layout::absent_shards_test {
namespace {

using test::make_entry;
using test::make_mesh;
using trace::Kind;
using Numbers = std::vector<std::uint64_t>;
using Parts = std::vector<AbsentShards>;

trace::Manifest made(std::vector<trace::TensorEntry> tensors) {
  trace::Manifest manifest;
  manifest.meshes.emplace("", make_mesh({{"dp", 2}, {"tp", 2}}));
  manifest.tensors = std::move(tensors);
  return manifest;
}

trace::TensorEntry of(Kind kind, std::map<std::string, Numbers> held_at = {}) {
  trace::TensorEntry entry = make_entry("w", {4}, kind);
  entry.held_at = std::move(held_at);
  return entry;
}

TEST_CASE("a run of which every rank has everything lacks nothing") {
  CHECK(absent_shards(made({of(Kind::kParam), of(Kind::kMainGrad), of(Kind::kParamAfterStep)}))
            .empty());
  // A stage of a pipeline, and a frozen parameter.
  const std::map<std::string, Numbers> stage{{"dp", {1}}};
  CHECK(absent_shards(made({of(Kind::kParam, stage), of(Kind::kMainGrad, stage)})).empty());
  CHECK(absent_shards(made({of(Kind::kParam)})).empty());
}

TEST_CASE("updates and main gradients that some ranks of the parameter lack are reported") {
  const auto parts = absent_shards(made({of(Kind::kParam), of(Kind::kMainGrad, {{"dp", {0}}}),
                                         of(Kind::kParamAfterStep, {{"tp", {1}}})}));
  CHECK(parts == Parts{{of(Kind::kMainGrad).key, {2, 3}}, {of(Kind::kParamAfterStep).key, {0, 2}}});
  CHECK(describe_absence(parts[0], 4) == "ranks {2, 3} of 4 recorded step 0 but lack it");
  CHECK(describe_absence({of(Kind::kParam).key, {3}}, 4) ==
        "rank 3 of 4 recorded step 0 but lacks it");
}

TEST_CASE("parameters need not have been recorded for that") {
  CHECK(absent_shards(made({of(Kind::kMainGrad), of(Kind::kParamAfterStep, {{"dp", {1}}})})) ==
        Parts{{of(Kind::kParamAfterStep).key, {0, 1}}});
}

TEST_CASE("an owner's main gradient is nobody else's") {
  trace::TensorEntry owned = of(Kind::kMainGrad);
  owned.placements.emplace("dp", trace::Only{1});
  CHECK(absent_shards(made({of(Kind::kParam), owned})).empty());
  owned.held_at = {{"tp", {0}}};
  CHECK(absent_shards(made({of(Kind::kParam), owned})) == Parts{{owned.key, {3}}});
}

TEST_CASE("a gradient on a mesh that leaves ranks out is not theirs") {
  trace::TensorEntry gradient = of(Kind::kMainGrad);
  gradient.mesh = "stage";
  trace::Manifest manifest = made({of(Kind::kParam), gradient});
  trace::Mesh mesh = make_mesh({{"x", 2}});
  mesh.ranks = {2, 3};
  manifest.meshes.emplace("stage", mesh);
  CHECK(absent_shards(manifest).empty());
}

TEST_CASE("values and gradients of micro-batches are where their tokens are") {
  for (const Kind kind : {Kind::kParamGrad, Kind::kOutput, Kind::kInput, Kind::kGradOutput,
                          Kind::kOptimizerState, Kind::kLoss, Kind::kGradNorm}) {
    CHECK(absent_shards(made({of(Kind::kParam), of(kind, {{"dp", {0}}})})).empty());
  }
}

TEST_CASE("what the entry says is reported, of ranks that closed their traces") {
  trace::TensorEntry cut = make_entry("a", {4});
  cut.placements.emplace("tp", trace::Shard{0, std::nullopt});
  cut.absent_on = std::vector<std::uint64_t>{1, 3};
  trace::Manifest manifest = made({cut});
  CHECK(absent_shards(manifest) == Parts{{cut.key, {1, 3}}});
  manifest.run.unfinished = {1, 2};
  CHECK(absent_shards(manifest) == Parts{{cut.key, {3}}});
  manifest.run.unfinished = {1, 3};
  CHECK(absent_shards(manifest).empty());
}

TEST_CASE("what was not to be recorded everywhere is not absent") {
  trace::Manifest manifest = made({of(Kind::kParam), of(Kind::kParamAfterStep, {{"dp", {0}}})});
  manifest.run.recorded = trace::Recorded{{Kind::kParam}, std::nullopt, {0}};
  CHECK(absent_shards(manifest).empty());
  manifest.run.recorded->kinds.push_back(Kind::kParamAfterStep);
  CHECK(absent_shards(manifest).size() == 1);
  manifest.run.recorded->steps = {1};
  CHECK(absent_shards(manifest).empty());
}

}  // namespace
}  // namespace ttrace::layout::absent_shards_test
