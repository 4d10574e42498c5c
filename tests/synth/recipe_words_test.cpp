#include "base/refusal.h"
#include "support/memory_trace.h"
#include "synth/recipe.h"

namespace ttrace::synth {
namespace {

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
}  // namespace ttrace::synth
