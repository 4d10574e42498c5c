// Layouts of real training jobs, small enough to be worked out by hand.
#include "layout/layout_problems.h"
#include "layout/spelled.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::layout::golden_layouts_test {
namespace {

using test::make_entry;
using test::make_mesh;
using trace::Flat;
using trace::Partial;
using trace::Reduction;
using trace::Segments;
using trace::Shard;
using trace::Strided;
using trace::TensorEntry;
using trace::Zigzag;
using Placements = std::map<std::string, trace::Placement>;

const Shard kDim0{0, std::nullopt};
const Shard kDim1{1, std::nullopt};

TensorEntry placed(tensor::Shape shape, Placements placements) {
  TensorEntry entry = make_entry("w", std::move(shape));
  entry.placements = std::move(placements);
  return entry;
}

// The plan as text, after the layout was found to be sound.
std::string layout_of(const TensorEntry& entry, const trace::Mesh& mesh) {
  trace::Manifest manifest;
  manifest.meshes.emplace(entry.mesh, mesh);
  manifest.tensors.push_back(entry);
  for (const std::string& problem : layout_problems(manifest)) return problem;
  return test::spelled(plan_layout(entry, mesh));
}

TEST_CASE("golden: fused q, k, v of 4 heads on 3 tensor-parallel ranks") {
  // Heads of 2 rows: 2 + 1 + 1 of each of q, k and v.
  const TensorEntry entry =
      placed({24}, {{"tp", Segments{0, {8, 8, 8}, 1, {{{4, 2, 2}, {4, 2, 2}, {4, 2, 2}}}}}});
  CHECK(layout_of(entry, make_mesh({{"tp", 3}})) ==
        "[0:4][8:12][16:20] = 0; [4:6][12:14][20:22] = 1; [6:8][14:16][22:24] = 2");
}

TEST_CASE("golden: fused q, k, v of 3 groups of 2 query heads on 2 tensor-parallel ranks") {
  // q is 6 heads of 2 rows, k and v are 3: 2 groups on rank 0, 1 on rank 1.
  const TensorEntry entry =
      placed({24}, {{"tp", Segments{0, {12, 6, 6}, 1, {{{8, 4}, {4, 2}, {4, 2}}}}}});
  CHECK(layout_of(entry, make_mesh({{"tp", 2}})) ==
        "[0:8][12:16][18:22] = 0; [8:12][16:18][22:24] = 1");
}

TEST_CASE("golden: Megatron's q, k, v, group after group, on 3 tensor-parallel ranks") {
  // A group is 2 query heads, a key and a value head of 2 rows: 8. Four of them as 2 + 1 + 1.
  CHECK(layout_of(placed({32}, {{"tp", Shard{0, {{16, 8, 8}}}}}), make_mesh({{"tp", 3}})) ==
        "[0:16] = 0; [16:24] = 1; [24:32] = 2");
}

TEST_CASE("golden: fused gate and up on 4 tensor-parallel ranks") {
  CHECK(layout_of(placed({16, 3}, {{"tp", Segments{0, {8, 8}, 1, {}}}}), make_mesh({{"tp", 4}})) ==
        "[0:2, 0:3][8:10, 0:3] = 0; [2:4, 0:3][10:12, 0:3] = 1; "
        "[4:6, 0:3][12:14, 0:3] = 2; [6:8, 0:3][14:16, 0:3] = 3");
}

TEST_CASE("golden: gate and up of several experts in one matrix") {
  CHECK(layout_of(placed({16}, {{"tp", Segments{0, {4, 4}, 2, {}}}}), make_mesh({{"tp", 2}})) ==
        "[0:2][4:6][8:10][12:14] = 0; [2:4][6:8][10:12][14:16] = 1");
}

TEST_CASE("golden: zigzag over 2 and over 4 context-parallel ranks") {
  // The two chunks in the middle are neighbours.
  CHECK(layout_of(placed({8}, {{"cp", Zigzag{0}}}), make_mesh({{"cp", 2}})) ==
        "[0:2][6:8] = 0; [2:6] = 1");
  CHECK(layout_of(placed({16}, {{"cp", Zigzag{0}}}), make_mesh({{"cp", 4}})) ==
        "[0:2][14:16] = 0; [2:4][12:14] = 1; [4:6][10:12] = 2; [6:10] = 3");
}

TEST_CASE("golden: sequence parallelism cuts what zigzag leaves, in its local order") {
  const TensorEntry entry = placed({12}, {{"cp", Zigzag{0}}, {"tp", kDim0}});
  CHECK(layout_of(entry, make_mesh({{"cp", 2}, {"tp", 3}})) ==
        "[0:2] = 0; [2:3][9:10] = 1; [10:12] = 2; [3:5] = 3; [5:7] = 4; [7:9] = 5");
  CHECK(layout_of(placed({8}, {{"cp", Zigzag{0}}, {"tp", kDim0}}),
                  make_mesh({{"cp", 2}, {"tp", 2}})) ==
        "[0:2] = 0; [6:8] = 1; [2:4] = 2; [4:6] = 3");
}

TEST_CASE("golden: ZeRO-1 ranges of one flat buffer, across the border of two parameters") {
  // The tensor-parallel shard of a, [2, 3], and b, [5], are 11 elements; 3 data-parallel ranks get
  // 4, 4 and 3 of them. Rank 2 d + t.
  const trace::Mesh mesh = make_mesh({{"dp", 3}, {"tp", 2}});
  const TensorEntry a = placed({4, 3}, {{"dp", Flat{{{0, 4}, {4, 6}, {6, 6}}}}, {"tp", kDim0}});
  CHECK(layout_of(a, mesh) ==
        "[0:1, 0:3][1:2, 0:1] = 0; [2:3, 0:3][3:4, 0:1] = 1; [1:2, 1:3] = 2; [3:4, 1:3] = 3");
  const TensorEntry b = placed({5}, {{"dp", Flat{{{0, 0}, {0, 2}, {2, 5}}}}});
  CHECK(layout_of(b, mesh) == "[0:2] = 2 3; [2:5] = 4 5");
  CHECK(local_layout(a, mesh, {1, 0})->dataset_shape() == tensor::Shape{2});
  CHECK(local_layout(a, mesh, {2, 1})->dataset_shape() == tensor::Shape{0});
}

TEST_CASE("golden: experts on a mesh of their own beside tensor and data parallelism") {
  const trace::Mesh dense = make_mesh({{"dp", 2}, {"tp", 4}});
  const trace::Mesh experts = make_mesh({{"edp", 2}, {"ep", 2}, {"etp", 2}});
  CHECK(layout_of(placed({8}, {{"tp", kDim0}}), dense) ==
        "[0:2] = 0 4; [2:4] = 1 5; [4:6] = 2 6; [6:8] = 3 7");
  TensorEntry entry = placed({4, 6}, {{"ep", kDim0}, {"etp", kDim1}});
  entry.mesh = "experts";
  CHECK(layout_of(entry, experts) ==
        "[0:2, 0:3] = 0 4; [0:2, 3:6] = 1 5; [2:4, 0:3] = 2 6; [2:4, 3:6] = 3 7");
}

TEST_CASE("golden: a vocabulary of 10 padded to 16 rows on 4 ranks") {
  // The padding is no part of the tensor: 4 + 4 + 2 + 0 of the 4 rows of each rank are.
  CHECK(layout_of(placed({10, 2}, {{"tp", Shard{0, {{4, 4, 2, 0}}}}}), make_mesh({{"tp", 4}})) ==
        "[0:4, 0:2] = 0; [4:8, 0:2] = 1; [8:10, 0:2] = 2");
  CHECK(layout_of(placed({10, 2}, {{"tp", kDim0}}), make_mesh({{"tp", 4}})) ==
        "[0:3, 0:2] = 0; [3:6, 0:2] = 1; [6:9, 0:2] = 2; [9:10, 0:2] = 3");
}

TEST_CASE("golden: hybrid sharding replicates over one axis and shards over the other") {
  CHECK(layout_of(placed({5, 2}, {{"dp_shard", kDim0}}),
                  make_mesh({{"dp_replicate", 2}, {"dp_shard", 3}})) ==
        "[0:2, 0:2] = 0 3; [2:4, 0:2] = 1 4; [4:5, 0:2] = 2 5");
}

TEST_CASE("golden: FSDP2 and tensor parallelism on one dimension") {
  // Tensor parallelism cut first, though its axis comes last: rank 2 d + t has part d of half t.
  const trace::Mesh mesh = make_mesh({{"dp", 2}, {"tp", 2}});
  const Placements placements{{"dp", Strided{0, 2}}, {"tp", kDim0}};
  CHECK(layout_of(placed({8}, placements), mesh) == "[0:2] = 0; [4:6] = 1; [2:4] = 2; [6:8] = 3");
  CHECK(layout_of(placed({6}, placements), mesh) == "[0:2] = 0; [3:5] = 1; [2:3] = 2; [5:6] = 3");
}

TEST_CASE("golden: a mesh that spans one pipeline stage") {
  trace::Mesh stage = make_mesh({{"dp", 2}, {"tp", 2}});
  stage.ranks = {4, 5, 6, 7};
  TensorEntry entry = placed({4}, {{"tp", kDim0}});
  entry.mesh = "stage 1";
  CHECK(layout_of(entry, stage) == "[0:2] = 4 6; [2:4] = 5 7");
}

TEST_CASE("golden: the gradient of a tied embedding is a sum over the first and last stage") {
  TensorEntry entry = placed({4}, {{"pp", Partial{Reduction::kSum}}, {"tp", kDim0}});
  entry.held_at = {{"pp", {0, 3}}};
  CHECK(layout_of(entry, make_mesh({{"pp", 4}, {"tp", 2}})) == "[0:2] = 0 + 6; [2:4] = 1 + 7");
}

TEST_CASE("golden: a sum over one axis and shards over another") {
  const trace::Mesh mesh = make_mesh({{"dp", 2}, {"tp", 2}});
  const TensorEntry entry = placed({4, 2}, {{"dp", Partial{Reduction::kMean}}, {"tp", kDim1}});
  CHECK(layout_of(entry, mesh) == "[0:4, 0:1] = 0 + 2; [0:4, 1:2] = 1 + 3");
  CHECK(plan_layout(entry, mesh).combination.factor == 0.5);
}

TEST_CASE("golden: tokens dispatched to experts, with padding") {
  const trace::Mesh mesh = make_mesh({{"ep", 3}});
  TensorEntry entry = placed({6, 2}, {{"ep", trace::Rows{0, "routing"}}});
  TensorEntry index = make_entry("routing", {8}, trace::Kind::kIndex, tensor::DType::kInt64);
  index.placements = {{"ep", Shard{0, {{4, 3, 1}}}}};
  trace::Manifest manifest;
  manifest.meshes.emplace("", mesh);
  manifest.tensors = {entry, index};
  CHECK(layout_problems(manifest).empty());
  const std::vector<std::vector<std::int64_t>> received{{4, 1, -1, 2}, {0, 5, 3}, {-1}};
  const RowNumbers rows = [&](std::uint64_t rank) { return received[rank]; };
  CHECK(test::spelled(plan_layout(entry, mesh, rows)) ==
        "[4:5, 0:2][1:2, 0:2][2:3, 0:2] = 0; [0:1, 0:2][5:6, 0:2][3:4, 0:2] = 1");
  const auto first = local_layout(entry, mesh, {0}, rows);
  REQUIRE(first);
  CHECK(first->shape == tensor::Shape{4, 2});
  CHECK(first->parts[2] == PlacedBox{{{2, 0}, {1, 2}}, {{3, 0}, {1, 2}}});
}

}  // namespace
}  // namespace ttrace::layout::golden_layouts_test
