#include "layout/manifest_merge.h"

#include "base/refusal.h"
#include "layout/merge_manifests.h"
#include "support/memory_trace.h"

namespace ttrace::layout::manifest_merge_test {
namespace {

using test::check_refused;
using test::contains;
using test::make_mesh;
using test::merge_manifests;
using trace::Flat;
using trace::Manifest;
using trace::Only;
using trace::Partial;
using trace::Placement;
using trace::Reduction;
using trace::Shard;
using trace::TensorEntry;
using Numbers = std::vector<std::uint64_t>;
using HeldAt = std::map<std::string, Numbers>;
using Parts = std::map<std::uint64_t, Manifest>;

const trace::Mesh kPipeline = make_mesh({{"pp", 2}, {"tp", 2}});

TensorEntry entry_of(std::map<std::string, Placement> placements = {}, tensor::Shape shape = {4}) {
  TensorEntry entry = test::make_entry("a", std::move(shape));
  entry.placements = std::move(placements);
  return entry;
}

// Parts of the ranks that are not `lost`; those of `ranks` have the entry.
Parts parts_of(const TensorEntry& entry, const Numbers& ranks, const Numbers& lost = {},
               const trace::Mesh& mesh = kPipeline) {
  Parts parts;
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    parts[rank].meshes.emplace("", mesh);
    if (!entry.mesh.empty()) parts[rank].meshes.emplace(entry.mesh, mesh);
  }
  for (const std::uint64_t rank : ranks) parts.at(rank).tensors.push_back(entry);
  for (const std::uint64_t rank : lost) parts.erase(rank);
  return parts;
}

HeldAt held_of(const TensorEntry& entry, const Numbers& ranks, const Numbers& lost = {}) {
  const MergedManifest merged = merge_manifests(parts_of(entry, ranks, lost));
  REQUIRE(merged.manifest.tensors.size() == 1);
  CHECK(merged.manifest.tensors[0].placements == entry.placements);
  CHECK(merged.lost_ranks == lost);
  return merged.manifest.tensors[0].held_at;
}

const Placement kCut = Shard{0, std::nullopt};
const Placement kSum = Partial{Reduction::kSum};

TEST_CASE("an entry of some ranks says which, one of all says nothing") {
  CHECK(held_of(entry_of(), {0, 1, 2, 3}).empty());
  CHECK(held_of(entry_of(), {0, 1}) == HeldAt{{"pp", {0}}});
  CHECK(held_of(entry_of(), {1, 3}) == HeldAt{{"tp", {1}}});
  CHECK(held_of(entry_of(), {2}) == HeldAt{{"pp", {1}}, {"tp", {0}}});
  CHECK(held_of(entry_of({{"tp", kCut}}), {2, 3}) == HeldAt{{"pp", {1}}});
  CHECK(held_of(entry_of({{"tp", kSum}}), {1, 3}) == HeldAt{{"tp", {1}}});
}

TEST_CASE("only needs no held_at") {
  CHECK(held_of(entry_of({{"pp", Only{1}}}), {2, 3}).empty());
  CHECK(held_of(entry_of({{"pp", Only{1}}}), {2}) == HeldAt{{"tp", {0}}});
  check_refused(
      [] {
        held_of(entry_of({{"pp", Only{1}}}), {0, 1});
      },
      {"a · output · step 0", "held along axis pp", "[0] of 2", "rank 2 is missing"});
}

TEST_CASE("ranks that are no product of coordinates are refused") {
  check_refused(
      [] {
        held_of(entry_of(), {0, 3});
      },
      {"a · output · step 0: recorded by ranks {0, 3} alone", "no product of coordinates",
       "pp 2 × tp 2", "rank 1 between them"});
}

TEST_CASE("a missing part of a tensor that is cut is refused") {
  const std::vector<Placement> cuts{kCut,
                                    trace::Zigzag{0},
                                    trace::Segments{0, {2, 2}, 1, std::nullopt},
                                    trace::Strided{0, 2},
                                    Flat{{{0, 2}, {2, 4}}},
                                    trace::Boxes{{{{0}, {2}}, {{2}, {2}}}},
                                    trace::Rows{0, "rows"}};
  for (const Placement& cut : cuts) {
    CAPTURE(trace::to_string(cut));
    CHECK(held_of(entry_of({{"tp", cut}}), {0, 1}) == HeldAt{{"pp", {0}}});
    check_refused(
        [&] {
          held_of(entry_of({{"tp", cut}}), {0, 2});
        },
        {"a · output · step 0: cut over axis tp, but only its coordinate [0] of 2 "
         "recorded it (ranks {0, 2})",
         "rank 1 is missing"});
    // What a lost rank held, it held.
    CHECK(held_of(entry_of({{"tp", cut}}), {0, 2}, {1, 3}).empty());
    CHECK(held_of(entry_of({{"tp", cut}}), {0}, {1}) == HeldAt{{"pp", {0}}});
  }
}

TEST_CASE("a part without elements need not have been recorded") {
  CHECK(held_of(entry_of({{"tp", Shard{0, {{4, 0}}}}}), {0, 2}).empty());
  CHECK(held_of(entry_of({{"tp", Flat{{{0, 0}, {0, 4}}}}}), {1, 3}).empty());
  CHECK(held_of(entry_of({{"tp", kCut}}, {1}), {0, 2}).empty());
  CHECK(held_of(entry_of({{"tp", trace::Boxes{{{{0}, {4}}, {{4}, {0}}}}}}), {0, 2}).empty());
}

// Parts whose ranks were asked to record outputs of step 0.
Parts asked(Parts parts) {
  for (auto& [rank, part] : parts) {
    part.run.id = "a run";
    part.run.recorded = trace::Recorded{{trace::Kind::kOutput}, std::nullopt, {0}};
  }
  return parts;
}

Numbers absent_on(const Parts& parts) {
  const MergedManifest merged = merge_manifests(parts);
  REQUIRE(merged.manifest.tensors.size() == 1);
  return merged.manifest.tensors[0].absent_on;
}

TEST_CASE("a rank that was asked to record its part and did not is named") {
  CHECK(absent_on(asked(parts_of(entry_of(), {0, 3}))) == Numbers{1, 2});
  CHECK(absent_on(asked(parts_of(entry_of(), {0, 1}))).empty());
  const TensorEntry cut = entry_of({{"tp", kCut}});
  CHECK(absent_on(asked(parts_of(cut, {0, 2}))) == Numbers{1, 3});
  CHECK(absent_on(asked(parts_of(cut, {0, 2}, {1}))) == Numbers{3});
  CHECK(absent_on(asked(parts_of(entry_of({{"tp", Shard{0, {{4, 0}}}}}), {0, 2}))).empty());
}

TEST_CASE("a rank that was asked for something else, or did not close its trace, is not named") {
  const Parts parts = asked(parts_of(entry_of({{"tp", kCut}}), {0, 2, 3}));
  CHECK(absent_on(parts) == Numbers{1});
  for (const auto& change : std::vector<void (*)(trace::RunFacts&)>{
           [](trace::RunFacts& run) { run.recorded->kinds.clear(); },
           [](trace::RunFacts& run) { run.recorded->kinds = {trace::Kind::kParam}; },
           [](trace::RunFacts& run) { run.recorded->steps = {1}; },
           [](trace::RunFacts& run) { run.unfinished = {1}; }}) {
    Parts changed = parts;
    change(changed.at(1).run);
    CHECK(absent_on(changed).empty());
  }
  CHECK(absent_on(asked(parts_of(entry_of({{"tp", trace::Rows{0, "rows"}}}), {0, 2}))).empty());
}

TEST_CASE("the run recorded what all ranks did that record") {
  using trace::Kind;
  Parts parts = asked(parts_of(entry_of(), {0, 1, 2, 3}));
  parts.at(0).run.recorded = trace::Recorded{{}, std::nullopt, {0, 1}};
  parts.at(1).run.recorded = trace::Recorded{{Kind::kParam, Kind::kOutput}, {{"a.*"}}, {0, 1}};
  parts.at(2).run.recorded->modules = {"b", "a.*"};
  parts.at(3).run.recorded->modules = {"b"};
  parts.at(3).run.unfinished = {3};
  trace::RunFacts run = merge_manifests(parts).manifest.run;
  CHECK(run.id == "a run");
  CHECK(run.unfinished == Numbers{3});
  CHECK(run.recorded == trace::Recorded{{Kind::kOutput}, {{"a.*", "b"}}, {0}});
  parts.at(2).run.recorded->modules.reset();
  CHECK(merge_manifests(parts).manifest.run.recorded->modules == std::nullopt);
  for (auto& [rank, part] : parts) part.run.recorded->kinds.clear();
  CHECK(merge_manifests(parts).manifest.run.recorded->kinds.empty());
  parts.at(1).run.recorded.reset();
  CHECK(merge_manifests(parts).manifest.run.recorded == std::nullopt);
}

TEST_CASE("coordinates of which every rank is lost hold sums and are not known to hold copies") {
  CHECK(held_of(entry_of(), {0, 1}, {2, 3}) == HeldAt{{"pp", {0}}});
  CHECK(held_of(entry_of({{"pp", kSum}}), {0, 1}, {2, 3}).empty());
  // Ranks of the other coordinate are there and do not hold it.
  CHECK(held_of(entry_of({{"pp", kSum}}), {0, 1}, {2}) == HeldAt{{"pp", {0}}});
  // One rank of every coordinate is there: it speaks for the lost one.
  CHECK(held_of(entry_of(), {0, 1, 2}, {3}).empty());
  CHECK(held_of(entry_of(), {1, 2}, {0, 3}).empty());
}

TEST_CASE("lost ranks are reported, and a run is readable without its first") {
  Parts parts = parts_of(entry_of(), {1, 2, 3}, {0});
  parts.at(1).run.model = "of rank 1";
  const MergedManifest merged = merge_manifests(parts);
  CHECK(merged.lost_ranks == Numbers{0});
  REQUIRE(merged.findings.size() == 1);
  CHECK(contains(merged.findings[0], "from rank 0"));
  CHECK(merged.manifest.run.model == "of rank 1");
  CHECK(merge_manifests(parts_of(entry_of(), {0})).findings.empty());
}

TEST_CASE("what the parts say of held_at is taken, and must be so") {
  TensorEntry given = entry_of({{"pp", Shard{0, {{4}}}}});
  given.held_at = {{"pp", {1}}};
  CHECK(held_of(given, {2, 3}) == HeldAt{{"pp", {1}}});
  CHECK(held_of(given, {2}, {0, 1, 3}) == HeldAt{{"pp", {1}}, {"tp", {0}}});
  check_refused(
      [&] {
        held_of(given, {0, 1, 2, 3});
      },
      {"rank 0 recorded it at coordinate 0 of axis pp", "names [1] alone"});
  given.placements = {{"pp", kSum}};
  given.held_at = {{"pp", {0, 1}}};
  check_refused([&] { held_of(given, {2, 3}); }, {"held along axis pp", "rank 0 is missing"});
}

TEST_CASE("held_at is of the entry's own mesh") {
  TensorEntry expert = entry_of({{"ep", kCut}});
  expert.mesh = "expert";
  trace::Mesh mesh = make_mesh({{"edp", 2}, {"ep", 2}});
  mesh.ranks = {3, 1, 0, 2};
  Parts parts = parts_of(expert, {1, 3});
  for (auto& [rank, part] : parts) part.meshes["expert"] = mesh;
  CHECK(merge_manifests(parts).manifest.tensors[0].held_at == HeldAt{{"edp", {0}}});

  mesh = make_mesh({{"edp", 2}});
  mesh.ranks = {3, 1};
  expert.placements.clear();
  parts = parts_of(expert, {1, 3});
  for (auto& [rank, part] : parts) part.meshes["expert"] = mesh;
  CHECK(merge_manifests(parts).manifest.tensors[0].held_at.empty());
  parts.at(2).tensors.push_back(expert);
  check_refused([&] { merge_manifests(parts); },
                {"rank 2 recorded it", "mesh \"expert\"", "edp 2 over ranks [3, 1]"});
}

TEST_CASE("contradictions name the key, the member, the ranks and both values") {
  struct Case {
    std::function<void(TensorEntry&)> change;
    std::string said;
  };
  const std::vector<Case> cases{
      {[](TensorEntry& e) { e.shape = {5}; }, "say shape is [4], rank 2 says [5]"},
      {[](TensorEntry& e) { e.dtype = tensor::DType::kBFloat16; },
       "say dtype is float32, rank 2 says bfloat16"},
      {[](TensorEntry& e) { e.scale = 0.1; }, "say scale is 1, rank 2 says 0.1"},
      {[](TensorEntry& e) { e.mesh = "m"; }, "say mesh is \"\", rank 2 says \"m\""},
      {[](TensorEntry& e) {
         e.placements["tp"] = Shard{0, {{3, 1}}};
       },
       "say placements/tp is shard 0 (given sizes) sizes [2, 2], rank 2 says shard 0 (given sizes) "
       "sizes [3, 1]"},
      {[](TensorEntry& e) {
         e.placements["pp"] = Flat{{{0, 1}, {1, 2}}};
       },
       "say placements/pp is replicate, rank 2 says flat ranges [[0, 1], [1, 2]]"},
      {[](TensorEntry& e) { e.held_at["pp"] = {0}; },
       "say held_at/pp is not given, rank 2 says [0]"},
      {[](TensorEntry& e) {
         e.microbatches = trace::Microbatches{{}, 0, {0, 1}};
       },
       "say microbatches is none, rank 2 says sum [0, 1]"}};
  for (const Case& one : cases) {
    Parts parts = parts_of(entry_of({{"tp", Shard{0, {{2, 2}}}}}), {0, 1, 2, 3});
    for (auto& [rank, part] : parts) part.meshes.emplace("m", kPipeline);
    one.change(parts.at(2).tensors[0]);
    check_refused([&] { merge_manifests(parts); },
                  {"a · output · step 0: ranks {0, 1, 3} " + one.said});
  }
}

TEST_CASE("an axis that is said to replicate is one of which nothing is said") {
  Parts parts = parts_of(entry_of(), {0, 1, 2, 3});
  parts.at(3).tensors[0].placements["tp"] = trace::Replicate{};
  CHECK(merge_manifests(parts).manifest.tensors[0].placements.empty());
}

TEST_CASE("the coarsest precision and the lowest order count") {
  using tensor::DType;
  Parts parts = parts_of(entry_of(), {0, 1, 2, 3});
  const auto merged = [&parts] { return merge_manifests(parts).manifest.tensors[0]; };
  CHECK(!merged().computed_in);
  CHECK(!merged().order);
  parts.at(1).tensors[0].computed_in = DType::kBFloat16;
  parts.at(1).tensors[0].order = 7;
  parts.at(3).tensors[0].order = 5;
  CHECK(merged().computed_in == DType::kBFloat16);
  CHECK(merged().order == 5);
  parts.at(2).tensors[0].computed_in = DType::kFloat8E5M2;
  parts.at(3).tensors[0].computed_in = DType::kFloat8E4M3;
  CHECK(merged().computed_in == DType::kFloat8E5M2);
  // A finer one of the first rank alone does not stay.
  parts = parts_of(entry_of(), {0, 1, 2, 3});
  parts.at(0).tensors[0].computed_in = DType::kFloat64;
  CHECK(merged().computed_in.value_or(DType::kFloat32) == DType::kFloat32);
}

TEST_CASE("tensors stand by step, then execution order, then key") {
  const auto named = [](const std::string& name, std::uint64_t step, std::uint64_t order) {
    TensorEntry entry = test::make_entry(name, {1}, trace::Kind::kOutput);
    entry.key.step = step;
    entry.order = order;
    return entry;
  };
  Parts parts = parts_of(entry_of(), {});
  TensorEntry second = named("b", 0, 2);
  second.key.microbatch = 0;
  TensorEntry by_kind = named("b", 0, 2);
  by_kind.key.kind = trace::Kind::kGradOutput;
  for (auto& [rank, part] : parts) {
    part.tensors = {named("a", 1, 0), named("z", 0, 1), second, named("b", 0, 2), by_kind};
  }
  std::vector<std::string> texts;
  for (const TensorEntry& entry : merge_manifests(parts).manifest.tensors) {
    texts.push_back(trace::to_string(entry.key));
  }
  CHECK(texts == std::vector<std::string>{"z · output · step 0", "b · grad_output · step 0",
                                          "b · output · step 0", "b · output · step 0 · mb 0",
                                          "a · output · step 1"});
}

TEST_CASE("ids of two runs are refused") {
  Parts parts = asked(parts_of(entry_of(), {}));
  for (const std::string other : {"another run", "A run", "a ru", "a run "}) {
    parts.at(1).run.id = parts.at(3).run.id = other;
    check_refused([&] { merge_manifests(parts); },
                  {"ranks {0, 2} are of the run a run, ranks {1, 3} of another one, " + other,
                   "move those of the other run away"});
  }
  parts.at(1).run.id = parts.at(3).run.id = "";
  CHECK(merge_manifests(parts).lost_ranks.empty());
}

TEST_CASE("meshes of two runs are refused") {
  Parts parts = parts_of(entry_of(), {});
  parts.at(1).meshes[""] = make_mesh({{"tp", 8}});
  parts.at(3).meshes[""] = make_mesh({{"tp", 8}});
  check_refused(
      [&] { merge_manifests(parts); },
      {"ranks {0, 2} say the meshes are pp 2 × tp 2, ranks {1, 3} say tp 8", "files of two runs"});
  parts = parts_of(entry_of(), {});
  parts.at(2).meshes.emplace("expert", kPipeline);
  check_refused([&] { merge_manifests(parts); }, {"rank 2 says pp 2 × tp 2; expert: pp 2 × tp 2"});
  // The row-major order spelled out is the default.
  parts = parts_of(entry_of(), {});
  parts.at(2).meshes.at("").ranks = {0, 1, 2, 3};
  CHECK(merge_manifests(parts).lost_ranks.empty());
  parts.at(2).meshes.at("").ranks = {1, 0, 2, 3};
  check_refused([&] { merge_manifests(parts); }, {"over ranks [1, 0, 2, 3]"});
}

TEST_CASE("a rank on no mesh is refused, and so is having no part") {
  Parts parts = parts_of(entry_of(), {});
  parts[7] = parts.at(0);
  check_refused([&] { merge_manifests(parts); },
                {"rank 7 lies on no mesh of the run (pp 2 × tp 2)", "another run"});
  check_refused([] { merge_manifests({}); }, {"no rank has a part"});
}

TEST_CASE("the lowest rank that ran a module tells its data flow") {
  Parts parts = parts_of(entry_of(), {});
  parts.at(0).modules = {{"(model)", {}, {}, {}, {}, {}, {}, {}}};
  parts.at(2).modules = {{"(model)", {}, {}, {}, {}, {"a"}, {}, {}},
                         {"b", {}, {}, {}, {}, {"a"}, {}, {}}};
  const auto modules = merge_manifests(parts).manifest.modules;
  REQUIRE(modules.size() == 2);
  CHECK(modules[0].name == "(model)");
  CHECK(modules[0].inputs.empty());
  CHECK(modules[1].name == "b");
}

TEST_CASE("optimizer groups with the same facts become one") {
  const auto group = [](double rate, std::vector<std::string> params, std::uint64_t step = 0) {
    return trace::OptimizerGroup{step, "sgd", {{"lr", rate}}, {}, {}, std::move(params)};
  };
  Parts parts = parts_of(entry_of(), {});
  for (const std::uint64_t rank : {0, 1}) {
    parts.at(rank).optimizer = {group(0.1, {"a"}, 1), group(0.1, {"a"}), group(0.2, {"a.bias"})};
  }
  for (const std::uint64_t rank : {2, 3}) parts.at(rank).optimizer = {group(0.1, {"b"})};
  const auto groups = merge_manifests(parts).manifest.optimizer;
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].params == std::vector<std::string>{"a", "b"});
  CHECK(groups[1].params == std::vector<std::string>{"a.bias"});
  CHECK(groups[2].step == 1);

  // Parts that are clipped by norms of their own stay apart.
  auto clipped = parts;
  for (const std::uint64_t rank : {2, 3}) clipped.at(rank).optimizer[0].clipped_by = "critic";
  const auto apart = merge_manifests(clipped).manifest.optimizer;
  REQUIRE(apart.size() == 4);
  CHECK(apart[0].params == std::vector<std::string>{"a"});
  CHECK(apart[2].clipped_by == "critic");

  parts.at(3).optimizer = {group(0.3, {"b"})};
  check_refused([&] { merge_manifests(parts); },
                {"optimizer, step 0: b is in two parameter groups, with sgd, lr 0.1 on ranks "
                 "{0, 1, 2} and with sgd, lr 0.3 on rank 3"});
}

}  // namespace
}  // namespace ttrace::layout::manifest_merge_test
