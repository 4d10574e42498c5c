// Placements by rows without an index that could say them.
#include "layout/problems_of.h"

namespace ttrace::layout::impossible_rows_test {
namespace {

using test::check_problem;
using test::make_mesh;
using test::placed;
using test::problems_of;
using trace::Rows;
using trace::Shard;

const trace::Mesh kMesh = make_mesh({{"dp", 2}, {"ep", 2}});
const Shard kCut{0, std::nullopt};

trace::TensorEntry tokens() { return placed({6, 4}, {{"ep", Rows{0, "routing"}}}); }

trace::TensorEntry routing(tensor::Shape shape = {7}, tensor::DType dtype = tensor::DType::kInt64) {
  trace::TensorEntry index =
      test::make_entry("routing", std::move(shape), trace::Kind::kIndex, dtype);
  index.placements = {{"ep", kCut}};
  return index;
}

const std::string kPointer = "placements/ep/rows";

TEST_CASE("rows with a fitting index are sound") {
  CHECK(problems_of(kMesh, tokens(), {routing()}).empty());
  CHECK(problems_of(kMesh, tokens(), {routing({7}, tensor::DType::kUInt16)}).empty());
  trace::TensorEntry columns_cut = tokens();
  columns_cut.placements["dp"] = Shard{1, std::nullopt};
  CHECK(problems_of(kMesh, columns_cut, {routing()}).empty());
}

TEST_CASE("rows without their index are reported with its key") {
  check_problem(kMesh, tokens(), kPointer, {"no tensor routing · index · step 0"});
  trace::TensorEntry other_step = routing();
  other_step.key.step = 1;
  check_problem(kMesh, tokens(), kPointer, {"no tensor routing · index · step 0"}, {other_step});
  trace::TensorEntry output = routing();
  output.key.kind = trace::Kind::kOutput;
  check_problem(kMesh, tokens(), kPointer, {"no tensor routing · index · step 0"}, {output});
}

TEST_CASE("the index is of the tensor's micro-batch and call, and copy 0") {
  trace::TensorEntry entry = tokens();
  entry.key.microbatch = 3;
  entry.key.call = 1;
  entry.key.copy = 2;
  trace::TensorEntry index = routing();
  check_problem(kMesh, entry, kPointer, {"no tensor routing · index · step 0 · mb 3 · call 1"},
                {index});
  index.key.microbatch = 3;
  index.key.call = 1;
  CHECK(problems_of(kMesh, entry, {index}).empty());
}

TEST_CASE("an index that is not integers in one dimension is refused") {
  check_problem(kMesh, tokens(), kPointer, {"[7] float32", "integers in one dimension"},
                {routing({7}, tensor::DType::kFloat32)});
  check_problem(kMesh, tokens(), kPointer, {"[7, 1] int64", "integers in one dimension"},
                {routing({7, 1})});
  trace::TensorEntry scalar = routing({});
  scalar.placements.clear();
  check_problem(kMesh, tokens(), kPointer, {"[] int64", "integers in one dimension"}, {scalar});
}

TEST_CASE("an index on another mesh is refused") {
  trace::TensorEntry index = routing();
  index.mesh = "other";
  check_problem(kMesh, tokens(), kPointer, {"\"other\"", "\"\""}, {index});
}

TEST_CASE("an index must be cut over the axes that say rows and no others") {
  trace::TensorEntry whole = routing();
  whole.placements.clear();
  check_problem(kMesh, tokens(), kPointer, {"not cut over ep"}, {whole});
  trace::TensorEntry cut_twice = routing();
  cut_twice.placements["dp"] = kCut;
  check_problem(kMesh, tokens(), kPointer, {"cut over dp", "not placed by its rows"}, {cut_twice});
}

TEST_CASE("an index must be held wherever the tensor is") {
  trace::TensorEntry index = routing();
  index.held_at = {{"dp", {1}}};
  check_problem(kMesh, tokens(), kPointer, {"not held at all coordinates of dp"}, {index});
  trace::TensorEntry entry = tokens();
  entry.held_at = {{"dp", {1}}};
  CHECK(problems_of(kMesh, entry, {index}).empty());
}

TEST_CASE("a dimension placed by rows is cut by nothing else") {
  trace::TensorEntry entry = tokens();
  for (const trace::Placement& other :
       {trace::Placement{kCut}, trace::Placement{trace::Zigzag{0}},
        trace::Placement{trace::Strided{0, 2}}, trace::Placement{trace::Segments{0, {6}, 1, {}}},
        trace::Placement{trace::Flat{{{0, 12}, {12, 24}}}},
        trace::Placement{trace::Boxes{{{{0, 0}, {3, 4}}, {{3, 0}, {3, 4}}}}}}) {
    CAPTURE(to_string(other));
    entry.placements["dp"] = other;
    check_problem(kMesh, entry, kPointer, {"dimension 0", "over dp as well"}, {routing()});
  }
  // Nor by the rows of another index. The pointer is that of the first axis by name.
  trace::TensorEntry other_index = routing();
  other_index.key.name = "other";
  other_index.placements = {{"dp", kCut}};
  entry.placements["dp"] = Rows{0, "other"};
  CHECK(problems_of(kMesh, entry, {routing(), other_index}).size() == 1);
}

TEST_CASE("an index that is itself placed by rows is refused") {
  trace::TensorEntry index = routing();
  index.placements["ep"] = Rows{0, "routing"};
  const std::vector<std::string> problems = problems_of(kMesh, tokens(), {index});
  REQUIRE_FALSE(problems.empty());
  CHECK(test::contains(problems[0], "index is itself placed by rows over ep"));
}

TEST_CASE("an index may be cut in any way that leaves every rank its part") {
  trace::TensorEntry index = routing();
  for (const trace::Placement& cut :
       {trace::Placement{trace::Boxes{{{{0}, {3}}, {{3}, {4}}}}},
        trace::Placement{trace::Zigzag{0}}, trace::Placement{trace::Flat{{{0, 3}, {3, 7}}}}}) {
    CAPTURE(to_string(cut));
    index.placements["ep"] = cut;
    CHECK(problems_of(kMesh, tokens(), {index}).empty());
  }
}

TEST_CASE("several axes may say rows of one index") {
  trace::TensorEntry entry = tokens();
  entry.placements["dp"] = Rows{0, "routing"};
  trace::TensorEntry index = routing();
  check_problem(kMesh, entry, "placements/dp/rows", {"not cut over dp"}, {index});
  index.placements["dp"] = kCut;
  CHECK(problems_of(kMesh, entry, {index}).empty());
}

}  // namespace
}  // namespace ttrace::layout::impossible_rows_test
