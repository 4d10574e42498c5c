#include "synth/recipe.h"

#include <string>

#include "base/refusal.h"
#include "support/memory_trace.h"
#include "synth/fault.h"

namespace ttrace::synth::recipe_test {
namespace {

using test::check_refused;

std::string spec(const std::string& members, const std::string& top = "") {
  return R"({"schema": "ttrace.synth/1", )" + top +
         R"("meshes": {"": {"axes": [{"name": "tp", "size": 2}, {"name": "dp", "size": 2}]}},
  "tensors": [{"name": "w{i}", "kind": "param", "dtype": "float32", "shape": [4, 6])" +
         members + "}]}";
}

void refused(const std::string& members, std::initializer_list<std::string_view> parts) {
  CAPTURE(members);
  check_refused([&] { check_recipe(parse_recipe(spec(members), "spec.json")); }, parts);
  check_refused([&] { check_recipe(parse_recipe(spec(members), "spec.json")); }, {"spec.json: "});
}

TEST_CASE("a group has what the spec says and else what the manifest would") {
  const Recipe recipe = parse_recipe(
      spec(R"(, "count": 3, "stages": "tp", "step": 2, "microbatch": 1, "call": 4, "copy": 5,
              "placements": {"dp": {"shard": 1}}, "scale": 0.5, "computed_in": "bfloat16",
              "mean": 1, "std": 2, "chunk": [2, 3], "deflate": 4, "shuffle": true)",
           R"("seed": 9, )"),
      "spec.json");
  check_recipe(recipe);
  CHECK(recipe.seed == 9);
  const Group& group = recipe.groups.at(0);
  const trace::TensorEntry entry = group.entry_of(2);
  CHECK(trace::to_string(entry.key) == "w2 · param · step 2 · mb 1 · call 4 · copy 5");
  CHECK(entry.held_at.at("tp") == std::vector<std::uint64_t>{1});
  CHECK(group.first_at(1) == 2);
  CHECK(entry.scale == 0.5);
  CHECK(group.std_dev == 2);
  CHECK(group.storage == trace::Storage{{2, 3}, 4, true, false});
  const trace::Manifest manifest = manifest_of(recipe);
  CHECK(manifest.tensors.size() == 3);
  CHECK(manifest.tensors[2].order == 2);
  const Recipe plain = parse_recipe(spec(""), "spec.json");
  CHECK(plain.seed == 0);
  CHECK(plain.groups[0].count == 1);
  CHECK(plain.groups[0].storage == trace::Storage{});
}

TEST_CASE("one rank holds every tensor whole, and no index") {
  const Recipe recipe = parse_recipe(
      R"({"schema": "ttrace.synth/1", "meshes": {"": {"axes": [{"name": "ep", "size": 2}]}}, "tensors": [
          {"name": "rows", "kind": "index", "dtype": "int32", "shape": [8], "placements": {"ep": {"shard": 0}}},
          {"name": "loose", "kind": "index", "dtype": "int32", "shape": [8]},
          {"name": "x", "kind": "output", "dtype": "float16", "shape": [8, 2], "scale": 2,
           "placements": {"ep": {"rows": {"dim": 0, "index": "rows"}}}}]})",
      "spec.json");
  check_recipe(recipe);
  const Recipe whole = on_one_rank(recipe);
  CHECK(whole.groups.size() == 2);
  CHECK(whole.groups[1].entry.placements.empty());
  CHECK(whole.groups[1].entry.scale == 1);
  CHECK(whole.meshes.at("").axes.empty());
}

TEST_CASE("what is no spec is refused with the place and the reason") {
  refused(R"(, "colour": 1)", {"/tensors/0", "colour"});
  refused(R"(, "count": 0)", {"/tensors/0/count"});
  refused(R"(, "count": 99999999)", {"/tensors/0/count", "more than 16777216"});
  refused(R"(, "deflate": 10)", {"/tensors/0/deflate", "0 to 9"});
  refused(R"(, "chunk": [0, 3])", {"/tensors/0/chunk"});
  refused(R"(, "chunk": [3])", {"/tensors/0", "a chunk of 1 dimensions"});
  refused(R"(, "std": -1)", {"/tensors/0/std"});
  refused(R"(, "scale": 0)", {"/tensors/0/scale"});
  refused(R"(, "mesh": "moe")", {"/tensors/0/mesh", "there is no mesh"});
  refused(R"(, "stages": "pp")", {"/tensors/0/stages", "no axis"});
  refused(R"(, "stages": "tp", "held_at": {"tp": [0]})", {"/tensors/0", "give one"});
  refused(R"(, "placements": {"tp": {"shard": 2}})", {"/tensors/0/placements/tp"});
  refused(R"(, "placements": {"tp": {"shard": 0, "sizes": [1, 2]}})",
          {"/tensors/0/placements/tp", "add up to"});
  refused(R"(, "placements": {"tp": {"flat": [[0, 11], [12, 24]]}})",
          {"/tensors/0/placements/tp", "held by nobody"});
  refused(R"(, "placements": {"tp": {"rows": {"dim": 0, "index": "rows"}}})", {"/tensors/0"});
  refused(R"(, "sparse": true, "deflate": 1)", {"cannot be filtered"});
  check_refused([] { parse_recipe(R"({"schema": "ttrace.synth/2", "tensors": []})", "s"); },
                {"s: /schema", "ttrace.synth/1"});
  check_refused(
      [] { check_recipe(parse_recipe(R"({"schema": "ttrace.synth/1", "tensors": []})", "s")); },
      {"without tensors"});
}

Recipe of(Group group) { return {"", 0, {{"", {}}}, {std::move(group)}}; }

TEST_CASE("sizes, names and numbers that cannot be are refused") {
  Group group;
  group.entry = test::make_entry("w", {std::uint64_t{1} << 33, std::uint64_t{1} << 33});
  check_refused([&] { check_recipe(of(group)); }, {"overflows 64 bits"});
  group.entry.shape = {std::uint64_t{1} << 45};
  group.count = std::uint64_t{1} << 20;
  group.entry.key.name = "w{i}";
  check_refused([&] { check_recipe(of(group)); }, {"overflows 64 bits"});
  group.entry.shape = {4};
  group.count = 2;
  group.entry.key.name = "w";
  check_refused([&] { check_recipe(of(group)); }, {"put {i}"});
  group.count = 1;
  group.entry.key.name = "a/b";
  check_refused([&] { check_recipe(of(group)); }, {"\"/\""});
  group.entry.key = test::make_key("rows", trace::Kind::kIndex);
  check_refused([&] { check_recipe(of(group)); }, {"an index holds integers"});
  group.entry.dtype = tensor::DType::kInt8;
  group.entry.shape = {129};
  check_refused([&] { check_recipe(of(group)); }, {"129 rows cannot be numbered in int8"});
  group.entry.shape = {128};
  CHECK_NOTHROW(check_recipe(of(group)));
}

TEST_CASE("two tensors of one key are refused") {
  Recipe recipe = parse_recipe(spec(R"(, "count": 12)"), "spec.json");
  recipe.groups.push_back(recipe.groups[0]);
  recipe.groups[1].count = 1;
  recipe.groups[1].entry.key.name = "w1{i}";
  check_refused([&] { check_recipe(recipe); }, {"spec.json: /tensors/1", "w10", "stands twice"});
}

TEST_CASE("faults that cannot be are usage errors") {
  const Recipe recipe =
      parse_recipe(spec(R"(, "count": 2, "placements": {"tp": {"shard": 0}})"), "spec.json");
  const auto refuse = [&](const std::string& fault, std::initializer_list<std::string_view> parts) {
    CAPTURE(fault);
    test::check_error(
        base::ErrorKind::kUsage, [&] { check_faults(recipe, {parse_fault(fault)}); }, parts);
  };
  CHECK_NOTHROW(check_faults(recipe, {parse_fault("scaled=2@w0"), parse_fault("nan@param/w1")}));
  refuse("scale@w0", {"there is no such fault", "scaled"});
  refuse("scaled=x@w0", {"expected a number"});
  refuse("scaled", {"expected a tensor"});
  refuse("scaled=2@w7", {"there is no such tensor", "w0"});
  refuse("scaled=2@output/w0", {"name and kind"});
  refuse("scaled=2@outputs/w0", {"no kind"});
  refuse("nan=1@w0", {"takes no number"});
  refuse("row_zeroed=4@w0", {"4 rows"});
  refuse("row_zeroed=0.5@w0", {"a whole number"});
  refuse("part_dropped@w0", {"no sum"});
  refuse("rank_missing=4", {"no such rank"});
  refuse("rank_missing=-1", {"a whole number"});
  refuse("rank_missing", {"expected a number"});
  refuse("rank_missing=1@w0", {"of no tensor"});
  test::check_error(
      base::ErrorKind::kUsage,
      [&] {
        check_faults(recipe, {parse_fault("key_missing@w0"), parse_fault("key_missing@w1")});
      },
      {"no tensor would be left"});
}

template <typename Action>
void refused(Action action, std::initializer_list<std::string_view> parts) {
  test::check_error(base::ErrorKind::kUsage, action, parts);
}

const trace::Mesh kMesh = test::make_mesh({{"dp", 2}, {"tp", 4}});

Group placed(const std::vector<std::string>& words, tensor::Shape shape = {8, 12}) {
  Group group;
  group.entry = test::make_entry("w{i}", std::move(shape));
  parse_placements(words, kMesh, group);
  return group;
}

TEST_CASE("shapes in words") {
  CHECK(parse_shape("") == tensor::Shape{});
  CHECK(parse_shape("7") == tensor::Shape{7});
  CHECK(parse_shape("4096x1x0") == tensor::Shape{4096, 1, 0});
  for (const char* wrong :
       {"x", "4x", "x4", "4xx4", "-4", "4 x 4", "4*4", "1e3", "+4", "18446744073709551616"}) {
    CAPTURE(wrong);
    refused([&] { parse_shape(wrong); }, {wrong});
  }
}

TEST_CASE("meshes in words") {
  const trace::Mesh mesh = parse_mesh({"dp=2", "tp=8"});
  CHECK(mesh.axes.size() == 2);
  CHECK(mesh.axes[1].name == "tp");
  CHECK(mesh.axes[1].size == 8);
  for (const char* wrong : {"tp", "tp=", "=8", "tp=0", "tp=-1", "tp=8x"}) {
    CAPTURE(wrong);
    refused([&] { parse_mesh({wrong}); }, {wrong});
  }
  refused([] { parse_mesh({"tp=2", "tp=2"}); }, {"twice"});
  refused([] { parse_mesh({"a=65536", "b=65536"}); }, {"more than 1048576 ranks"});
}

TEST_CASE("placements in words") {
  const Group group = placed({"tp=shard:1", "dp=flat"});
  CHECK(group.entry.placements.at("tp") == trace::Placement{trace::Shard{1, std::nullopt}});
  CHECK(group.entry.placements.at("dp") == trace::Placement{trace::Flat{{{0, 12}, {12, 24}}}});
  const auto one = [](const std::string& word) { return placed({word}).entry.placements.at("tp"); };
  CHECK(one("tp=zigzag:0") == trace::Placement{trace::Zigzag{0}});
  CHECK(one("tp=strided:1:3") == trace::Placement{trace::Strided{1, 3}});
  CHECK(one("tp=partial") == trace::Placement{trace::Partial{}});
  CHECK(one("tp=partial:max") == trace::Placement{trace::Partial{trace::Reduction::kMax}});
  CHECK(one("tp=only:3") == trace::Placement{trace::Only{3}});
  CHECK(one("tp=replicate") == trace::Placement{trace::Replicate{}});
  CHECK(placed({"tp=stages"}).stages == "tp");
  CHECK(placed({"tp=stages"}).stage_count == 4);
  CHECK(placed({"tp=flat"}, {10}).entry.placements.at("tp") ==
        trace::Placement{trace::Flat{{{0, 3}, {3, 6}, {6, 9}, {9, 10}}}});
}

TEST_CASE("placements that cannot be are refused with what can") {
  for (const char* wrong :
       {"tp=sharded:1", "tp=shard", "tp=shard:", "tp=shard:x", "tp=", "tp", "tp=strided:1",
        "tp=strided:1:0", "tp=partial:min", "tp=flat:1", "tp=replicate:0"}) {
    CAPTURE(wrong);
    refused([&] { placed({wrong}); }, {wrong});
  }
  refused([] { placed({"pp=shard:0"}); }, {"no such axis"});
  refused([] { placed({"tp=shard:2"}); }, {"no dimension 2"});
  refused([] { placed({"tp=only:4"}); }, {"size 4"});
  refused([] { placed({"tp=shard:0", "tp=shard:1"}); }, {"twice"});
  refused([] { placed({"tp=flat", "dp=flat"}); }, {"second axis is flat"});
  refused([] { placed({"tp=stages", "dp=stages"}); }, {"two axes"});
}

}  // namespace

}  // namespace ttrace::synth::recipe_test
