#include "layout/layout_rules.h"

#include "base/refusal.h"
#include "support/memory_trace.h"

namespace ttrace::layout::layout_rules_test {
namespace {

using test::check_refused;
using test::make_entry;
using test::make_mesh;
using trace::Kind;
using trace::Manifest;
using trace::TensorEntry;

// A manifest over dp 2 × tp 4, with a mesh "kv" over the same ranks.
Manifest manifest_of(std::vector<TensorEntry> entries) {
  Manifest manifest;
  manifest.meshes[""] = make_mesh({{"dp", 2}, {"tp", 4}});
  manifest.meshes["kv"] = make_mesh({{"dp", 2}, {"head", 2}, {"copy", 2}});
  manifest.tensors = std::move(entries);
  return manifest;
}

Manifest ruled(const Manifest& manifest, const std::string& rules, const std::string& more = "") {
  const std::string text =
      R"({"schema": "ttrace.layout/1", )" + more + R"("rules": [)" + rules + "]}";
  return with_layout_rules(manifest, text, "rules.json");
}

// The only tensor, of the shape given, after a rule for it.
TensorEntry after(const std::string& members, tensor::Shape shape,
                  std::map<std::string, trace::Placement> placements = {}) {
  TensorEntry entry = make_entry("w", std::move(shape));
  entry.placements = std::move(placements);
  return ruled(manifest_of({entry}), R"({"name": "w", )" + members + "}").tensors.at(0);
}

tensor::Shape shape_of(const std::string& tp, tensor::Shape shape) {
  return after(R"("placements": {"tp": )" + tp + "}", std::move(shape)).shape;
}

TEST_CASE("placements replace those of their axes, and the others stay") {
  const TensorEntry entry = after(R"("placements": {"tp": "replicate"})", {8},
                                  {{"dp", trace::Partial{trace::Reduction::kMean}},
                                   {"tp", trace::Partial{trace::Reduction::kSum}}});
  CHECK(entry.placements.at("dp") == trace::Placement{trace::Partial{trace::Reduction::kMean}});
  CHECK(entry.placements.at("tp") == trace::Placement{trace::Replicate{}});
  CHECK(entry.shape == tensor::Shape{8});
}

TEST_CASE("coordinates that hold a tensor replace those of their axes") {
  TensorEntry entry = make_entry("w", {8});
  entry.held_at = {{"dp", {0}}, {"tp", {1, 2}}};
  const Manifest changed =
      ruled(manifest_of({entry}), R"({"name": "w", "held_at": {"tp": [0, 3]}})");
  CHECK(changed.tensors[0].held_at ==
        std::map<std::string, std::vector<std::uint64_t>>{{"dp", {0}}, {"tp", {0, 3}}});
  CHECK(changed.tensors[0].shape == tensor::Shape{8});
}

TEST_CASE("the whole shape is worked out from the shards of the ranks") {
  CHECK(shape_of(R"({"shard": 1})", {3, 2}) == tensor::Shape{3, 8});
  CHECK(shape_of(R"({"shard": 0, "order": "zigzag"})", {4, 2}) == tensor::Shape{16, 2});
  CHECK(shape_of(R"({"shard": 0, "segments": [8, 4]})", {3, 2}) == tensor::Shape{12, 2});
  CHECK(shape_of(R"({"shard": 0, "stride": 2})", {4, 2}) == tensor::Shape{16, 2});
  CHECK(shape_of(R"({"partial": "sum"})", {4, 2}) == tensor::Shape{4, 2});
  CHECK(shape_of(R"({"only": 1})", {4, 2}) == tensor::Shape{4, 2});
}

TEST_CASE("several axes are undone together, on one dimension or several") {
  CHECK(after(R"("placements": {"dp": {"shard": 0}, "tp": {"shard": 0}})", {3, 5}).shape ==
        tensor::Shape{24, 5});
  CHECK(after(R"("placements": {"dp": {"shard": 1}, "tp": {"shard": 0}})", {3, 5}).shape ==
        tensor::Shape{12, 10});
  CHECK(after(R"("placements": {"tp": {"shard": 0}}, "held_at": {"tp": [1, 3]})", {3}).shape ==
        tensor::Shape{6});
}

TEST_CASE("what the manifest said of the cut is undone first") {
  const std::map<std::string, trace::Placement> sharded{{"tp", trace::Shard{0, std::nullopt}}};
  // Ranks have [2, 4].
  CHECK(after(R"("placements": {"tp": {"shard": 1}})", {8, 4}, sharded).shape ==
        tensor::Shape{2, 16});
  CHECK(after(R"("placements": {"tp": "replicate"})", {8, 4}, sharded).shape ==
        tensor::Shape{2, 4});
  CHECK(after(R"("placements": {"dp": {"shard": 0}})", {8, 4}, sharded).shape ==
        tensor::Shape{16, 4});
  CHECK(after(R"("placements": {"dp": {"partial": "sum"}})", {8, 4}, sharded).shape ==
        tensor::Shape{8, 4});
  CHECK(after(R"("placements": {"tp": {"shard": 0}})", {7, 4}, sharded).shape ==
        tensor::Shape{7, 4});
}

TEST_CASE("a given shape counts") {
  const TensorEntry entry = after(
      R"("placements": {"tp": {"shard": 0, "sizes": [3, 3, 3, 2]}}, "shape": [11, 2])", {3, 2});
  CHECK(entry.shape == tensor::Shape{11, 2});
  CHECK(after(R"("shape": [2, 3])", {6}).shape == tensor::Shape{2, 3});
  CHECK(after(R"("shape": [])", {1}).shape == tensor::Shape{});
}

TEST_CASE("a shape that cannot be worked out must be given") {
  const std::map<std::string, trace::Placement> uneven{{"tp", trace::Shard{0, std::nullopt}}};
  const auto refused = [](const std::string& placements, tensor::Shape shape,
                          const std::map<std::string, trace::Placement>& before = {}) {
    CAPTURE(placements);
    check_refused(
        [&] { after(R"("placements": )" + placements, shape, before); },
        {"rules.json: /rules/0: the whole shape of w · output · step 0", "give it as \"shape\""});
  };
  refused(R"({"tp": {"shard": 1}})", {7, 4}, uneven);  // [2, 4], [2, 4], [2, 4] and [1, 4]
  refused(R"({"tp": {"flat": [[0, 2], [2, 4], [4, 6], [6, 8]]}})", {2});
  refused(R"({"tp": {"boxes": [[[0], [1]], [[1], [1]], [[2], [1]], [[3], [1]]]}})", {1});
  refused(R"({"tp": {"rows": {"dim": 0, "index": "i"}}})", {4});
  refused(R"({"tp": "replicate"})", {8}, {{"tp", trace::Flat{{{0, 2}, {2, 4}, {4, 6}, {6, 8}}}}});
  refused(R"({"tp": "replicate"})", {8}, {{"tp", trace::Rows{0, "i"}}});
  refused(R"({"tp": {"shard": 0}})", {std::uint64_t{1} << 62});
}

// Of a zigzag every rank holds two chunks, so an odd number of elements is no rank's share.
TEST_CASE("shards that the new layout cannot have left are refused") {
  for (const char* placement :
       {R"({"shard": 0, "order": "zigzag"})", R"({"shard": 0, "stride": 2})",
        R"({"shard": 0, "segments": [5, 7]})"}) {
    CAPTURE(placement);
    check_refused([&] { shape_of(placement, {3}); }, {"rules.json: /rules/0", "\"shape\""});
  }
}

TEST_CASE("a change of mesh drops what the manifest said of the other's axes") {
  TensorEntry entry = make_entry("k", {4, 2});
  entry.placements["tp"] = trace::Shard{0, std::nullopt};
  entry.held_at["dp"] = {0};
  const Manifest before = manifest_of({entry});
  const TensorEntry copied = ruled(before, R"({"name": "k", "mesh": "kv"})").tensors[0];
  CHECK(copied.mesh == "kv");
  CHECK(copied.placements.empty());
  CHECK(copied.held_at.empty());
  CHECK(copied.shape == tensor::Shape{1, 2});
  const TensorEntry cut =
      ruled(before, R"({"name": "k", "mesh": "kv", "placements": {"head": {"shard": 0}}})")
          .tensors[0];
  CHECK(cut.shape == tensor::Shape{2, 2});
  // The same mesh is no change.
  CHECK(ruled(before, R"({"name": "k", "mesh": ""})").tensors[0].placements.size() == 1);
}

TEST_CASE("a file may add meshes") {
  const std::string mesh = R"("meshes": {"x": {"axes": [{"name": "h", "size": 8}]}}, )";
  const Manifest before = manifest_of({make_entry("w", {2})});
  const Manifest changed =
      ruled(before, R"({"name": "w", "mesh": "x", "placements": {"h": {"shard": 0}}})", mesh);
  CHECK(changed.meshes.size() == 3);
  CHECK(changed.tensors[0].shape == tensor::Shape{16});
  check_refused([&] { ruled(before, "", R"("meshes": {"kv": {"axes": []}}, )"); },
                {"rules.json: /meshes/kv: the trace has a mesh of this name"});
  check_refused([&] { ruled(before, "", R"("meshes": {"y": {"axes": [{"name": "h"}]}}, )"); },
                {"rules.json: /meshes/y/axes/0"});
  check_refused([&] { ruled(before, R"({"name": "w", "mesh": "z"})"); },
                {"rules.json: /rules/0", "there is no mesh \"z\""});
}

TEST_CASE("the first rule that matches a tensor counts, by name and kind") {
  const Manifest before = manifest_of(
      {make_entry("a.w", {2}), make_entry("b.w", {2}), make_entry("a.w", {2}, Kind::kParam)});
  const Manifest changed =
      ruled(before, R"({"name": ["x", "a.?"], "kind": ["output", "loss"], "scale": 2},
                 {"name": "*.w", "scale": 3})");
  CHECK(changed.tensors[0].scale == 2);
  CHECK(changed.tensors[1].scale == 3);
  CHECK(changed.tensors[2].scale == 3);
}

TEST_CASE("a rule that matches no tensor is refused with the nearest names") {
  const Manifest before = manifest_of({make_entry("layers.0.fc1", {2}), make_entry("norm", {2})});
  check_refused([&] { ruled(before, R"({"name": "layers.0.fc2"})"); },
                {"rules.json: /rules/0: no tensor that an earlier rule leaves matches layers.0.fc2",
                 "nearest names are layers.0.fc1 and norm"});
  check_refused([&] { ruled(before, R"({"name": "*"}, {"name": "norm"})"); },
                {"rules.json: /rules/1: no tensor that an earlier rule leaves matches norm"});
  check_refused([&] { ruled(before, R"({"name": "norm", "kind": "loss"})"); }, {"/rules/0"});
}

TEST_CASE("axes, dimensions and coordinates that do not exist are refused") {
  const auto refused = [](const std::string& members,
                          std::initializer_list<std::string_view> reasons) {
    CAPTURE(members);
    check_refused([&] { after(members, {4, 2}); }, {"rules.json: /rules/0"});
    check_refused([&] { after(members, {4, 2}); }, reasons);
  };
  refused(R"("placements": {"pp": {"shard": 0}}, "shape": [4, 2])",
          {"/rules/0/placements/pp", "no axis \"pp\""});
  refused(R"("placements": {"tp": {"shard": 2}}, "shape": [4, 2])",
          {"/rules/0/placements/tp", "shard of dimension 2", "[4, 2]"});
  refused(R"("placements": {"tp": {"shard": 2}})", {"dimension 2"});
  refused(R"("placements": {"pp": "replicate"})", {"no axis \"pp\""});
  refused(R"("placements": {"tp": {"only": 4}})", {"only 4, but the axis has size 4"});
  refused(R"("held_at": {"tp": [4]})", {"/rules/0/held_at/tp", "coordinate 4", "size 4"});
  refused(R"("held_at": {"tp": []})", {"held at no coordinate"});
  refused(R"("held_at": {"pp": [0]})", {"no axis \"pp\""});
  refused(R"("held_at": {"tp": [0]}, "placements": {"tp": {"only": 0}})", {"give one"});
  refused(R"("placements": {"tp": "sharded"})",
          {"/rules/0/placements/tp", "unknown placement \"sharded\""});
}

TEST_CASE("numbers of a rule that make no sense are refused") {
  const auto refused = [](const std::string& members, std::string_view where) {
    CAPTURE(members);
    check_refused([&] { after(members, {4}); }, {"rules.json: /rules/0", where});
  };
  refused(R"("shape": [-1])", "/shape/0");
  refused(R"("shape": 4)", "/shape: expected a list");
  refused(R"("shape": [4611686018427387904, 4])", "overflows 64 bits");
  std::string ones = "1";
  for (int i = 1; i < 33; ++i) ones += ", 1";
  refused(R"("shape": [)" + ones + "]", "/shape");
  refused(R"("scale": "2")", "/scale: expected a number");
  refused(R"("colour": 1)", "/colour: unknown key");
  const Manifest integers =
      manifest_of({make_entry("w", {4}, Kind::kOutput, tensor::DType::kInt64)});
  check_refused([&] { ruled(integers, R"({"name": "w", "scale": 2})"); },
                {"rules.json: /rules/0/scale: a scale on int64"});
  check_refused(
      [&] { ruled(integers, R"({"name": "w", "placements": {"tp": {"partial": "mean"}}})"); },
      {"/rules/0/placements/tp", "partial mean of int64"});
}

TEST_CASE("a layout file of something else is refused") {
  const Manifest before = manifest_of({make_entry("w", {2})});
  const auto refused = [&](const std::string& text, std::string_view reason) {
    CAPTURE(text);
    check_refused([&] { with_layout_rules(before, text, "rules.json"); }, {"rules.json: ", reason});
  };
  refused("", "not valid JSON");
  refused("7", "the top level: expected an object");
  refused(R"({"rules": []})", "the key \"schema\" is missing");
  refused(R"({"schema": "ttrace.map/2"})",
          "this is \"ttrace.map/2\", but this ttrace reads \"ttrace.layout/1\"");
  refused(R"({"schema": "ttrace.layout/1"})", "the key \"rules\" is missing");
  refused(R"({"schema": "ttrace.layout/1", "rules": {}})", "/rules: expected a list");
  refused(R"({"schema": "ttrace.layout/1", "rules": [{}]})", "/rules/0: the key \"name\"");
  refused(R"({"schema": "ttrace.layout/1", "rules": [{"name": []}]})", "expected at least one");
  refused(R"({"schema": "ttrace.layout/1", "rules": [], "tensors": []})", "/tensors: unknown key");
  CHECK(ruled(before, "").tensors[0].shape == tensor::Shape{2});
}

}  // namespace
}  // namespace ttrace::layout::layout_rules_test
