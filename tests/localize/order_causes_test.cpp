// Causes by which a tensor has the right values in the wrong places.
#include "localize/two_runs.h"
#include "support/catch.h"

namespace ttrace::localize::order_causes_test {
namespace {

using test::make_entry;
using test::make_mesh;
using test::Names;
using test::random_values;
using test::rows_in_order;
using test::TwoRuns;
using test::Values;
using trace::Kind;

const Values kWhole = random_values(64, 1);  // [16, 4]

Names names_of(const Values& candidate, const test::Placements& placements = {},
               const trace::Mesh& mesh = {}) {
  TwoRuns runs(mesh);
  runs.put(make_entry("fc", {16, 4}), kWhole, candidate, placements);
  return runs.names();
}

std::vector<std::size_t> natural() {
  return {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

TEST_CASE("swapped blocks are a wrong order, and named") {
  TwoRuns runs;
  const Values swapped =
      rows_in_order(kWhole, 4, {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15});
  runs.put(make_entry("fc", {16, 4}), kWhole, swapped);
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "wrong_order");
  CHECK(causes[0].evidence.find("along dimension 0 blocks 1 and 2 of 4 are swapped") == 0);
  CHECK(causes[0].unexplained < 1e-6);
}

TEST_CASE("zigzag order is named as such, and so is an interleaved one") {
  TwoRuns zigzag;
  zigzag.put(make_entry("fc", {16, 4}), kWhole,
             rows_in_order(kWhole, 4, {0, 1, 2, 3, 12, 13, 14, 15, 4, 5, 6, 7, 8, 9, 10, 11}));
  CHECK(zigzag.causes().at(0).evidence.find("zigzag order over 2 ranks") != std::string::npos);

  const Values twelve = random_values(96, 3);  // [12, 8]: q, k and v of four heads
  TwoRuns qkv;
  qkv.put(make_entry("fc", {12, 8}), twelve,
          rows_in_order(twelve, 8, {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  CHECK(qkv.causes().at(0).evidence.find("12 blocks are interleaved") != std::string::npos);
}

TEST_CASE("other values are no wrong order") {
  CHECK(names_of(random_values(64, 2)).empty());
  CHECK(names_of(kWhole).empty());
}

TEST_CASE("a vector of few values that differ by their order alone is no evidence") {
  TwoRuns runs;
  Values mask(16, 0);
  Values other(16, 0);
  mask[3] = mask[7] = other[4] = other[9] = 1;
  runs.put(make_entry("mask", {16}, Kind::kOutput, tensor::DType::kInt64), mask, other);
  for (const std::string& name : runs.names()) CHECK(name == "mask_or_rows");
}

TEST_CASE("a rank that holds another rank's shard is a duplicated shard") {
  TwoRuns runs(make_mesh({{"tp", 2}}));
  const Values doubled = rows_in_order(kWhole, 4, {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7});
  runs.put(make_entry("fc", {16, 4}), kWhole, doubled, {{"tp", trace::Shard{0, {}}}});
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "duplicated_shard");
  CHECK(causes[0].evidence.find("block 1 of 2 (rank 1) holds block 0") != std::string::npos);
}

TEST_CASE("a rank's shard at another offset is a wrong slice") {
  std::vector<std::size_t> order = natural();
  for (std::size_t i = 8; i < 16; ++i) order[i] = i - 3;
  TwoRuns runs(make_mesh({{"tp", 2}}));
  runs.put(make_entry("fc", {16, 4}), kWhole, rows_in_order(kWhole, 4, order),
           {{"tp", trace::Shard{0, {}}}});
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "wrong_slice");
  CHECK(causes[0].evidence.find("rank 1 holds indices 5 to 12") != std::string::npos);
}

TEST_CASE("rows moved by one place are shifted") {
  std::vector<std::size_t> order = natural();
  for (std::size_t i = 0; i < 16; ++i) order[i] = (i + 1) % 16;
  TwoRuns runs;
  runs.put(make_entry("fc", {16, 4}), kWhole, rows_in_order(kWhole, 4, order));
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "shifted");
  CHECK(causes[0].evidence.find("moved down by 1 place, around the end") != std::string::npos);
}

TEST_CASE("rows moved by more than a quarter of all are in another order") {
  std::vector<std::size_t> order = natural();
  for (std::size_t i = 0; i < 16; ++i) order[i] = (i + 5) % 16;
  const Values wide = random_values(128, 4);  // [16, 8]
  TwoRuns runs;
  runs.put(make_entry("fc", {16, 8}), wide, rows_in_order(wide, 8, order));
  CHECK(runs.names() == Names{"wrong_order"});
}

TEST_CASE("labels rolled after the cut are shifted at the borders of shards") {
  Values tokens;  // [17, 2]
  for (const double value : random_values(34, 5)) tokens.push_back(std::floor(value * 1000));
  const auto row = [&](std::size_t r) { return rows_in_order(tokens, 2, {r}); };
  Values labels;
  Values rolled;
  // Context parallelism over two ranks: chunks 0 and 3, and 1 and 2, of four rows each.
  const std::vector<std::vector<std::size_t>> orders = {{0, 1, 2, 3, 12, 13, 14, 15},
                                                        {4, 5, 6, 7, 8, 9, 10, 11}};
  std::vector<std::size_t> next(16);
  for (const auto& order : orders) {
    for (std::size_t i = 0; i < order.size(); ++i) next[order[i]] = order[(i + 1) % order.size()];
  }
  for (std::size_t r = 0; r < 16; ++r) {
    for (const double value : row(r + 1)) labels.push_back(value);
    for (const double value : row(next[r])) rolled.push_back(value);
  }
  TwoRuns runs(make_mesh({{"cp", 2}}));
  runs.put(make_entry("labels", {16, 2}, Kind::kInput, tensor::DType::kInt64), labels, rolled,
           {{"cp", trace::Zigzag{0}}});
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "shifted");
  CHECK(causes[0].evidence.find("rolled by 1 place after the cut") != std::string::npos);
}

TEST_CASE("a tensor that is another layer's is named by it") {
  TwoRuns runs;
  const Values first = random_values(64, 6);
  const Values second = random_values(64, 7);
  runs.put(make_entry("layers.0.fc", {16, 4}, Kind::kParam), first, second);
  runs.put(make_entry("layers.1.fc", {16, 4}, Kind::kParam), second, second);
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "other_layer");
  CHECK(causes[0].evidence.find("it is the reference's layers.1.fc") == 0);
}

TEST_CASE("two siblings that are exchanged are named") {
  TwoRuns runs;
  const Values first = random_values(64, 6);
  const Values second = random_values(64, 7);
  runs.put(make_entry("attn.query", {16, 4}, Kind::kGradOutput), first, second);
  runs.put(make_entry("attn.key", {16, 4}, Kind::kGradOutput), second, first);
  runs.put(make_entry("mlp.gate", {16, 4}, Kind::kGradOutput), second, second);
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "other_layer");
  CHECK(causes[0].evidence.find("it is the reference's attn.query, and that is this one's") == 0);
}

TEST_CASE("an input that is the run's own output of another layer") {
  TwoRuns runs;
  const Values first = random_values(64, 6);
  const Values second = random_values(64, 7);
  runs.put(make_entry("layers.0", {16, 4}), first);
  runs.put(make_entry("layers.1", {16, 4}, Kind::kInput), first, second);
  runs.put(make_entry("layers.2", {16, 4}), second);
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "other_layer");
  CHECK(causes[0].evidence.find("the run's own output of layers.2") != std::string::npos);
}

TEST_CASE("a value of an earlier step, or of another micro-batch, is stale") {
  for (const bool step : {true, false}) {
    TwoRuns runs;
    const Values before = random_values(64, 8);
    trace::TensorEntry entry = make_entry("fc", {16, 4}, Kind::kOutput);
    if (!step) entry.key.microbatch = 0;
    runs.put(entry, before);
    if (step) entry.key.step = 1;
    if (!step) entry.key.microbatch = 1;
    runs.put(entry, kWhole, before);
    const std::vector<Cause> causes = runs.causes();
    REQUIRE(causes.size() == 1);
    CHECK(causes[0].name == "stale");
    CHECK(causes[0].evidence.find(step ? "of step 0" : "of micro-batch 0") != std::string::npos);
  }
}

TEST_CASE("what the reference has alike in two micro-batches is not stale where both are wrong") {
  TwoRuns runs;
  trace::TensorEntry entry = make_entry("loss", {16, 4}, Kind::kGradOutput);
  Values twice = kWhole;
  for (double& value : twice) value *= 2;
  for (const std::uint64_t microbatch : {0, 1}) {
    entry.key.microbatch = microbatch;
    runs.put(entry, kWhole, twice);
  }
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "scaled");
}

TEST_CASE("one number is scaled where it is what a loss is multiplied by") {
  for (const Kind kind : {Kind::kGradOutput, Kind::kOutput}) {
    TwoRuns runs;
    runs.put(make_entry("loss", {}, kind), {0.25}, {0.5});
    const std::vector<Cause> causes = runs.causes();
    REQUIRE(causes.size() == (kind == Kind::kGradOutput ? 1 : 0));
    if (kind != Kind::kGradOutput) continue;
    CHECK(causes[0].name == "scaled");
    CHECK(causes[0].evidence.find("2 times the reference") == 0);
  }
}

TEST_CASE("a layout under which the shards match is proposed") {
  TwoRuns runs(make_mesh({{"cp", 2}}));
  const trace::TensorEntry entry = make_entry("fc", {16, 4});
  runs.put(entry, kWhole, kWhole, {{"cp", trace::Zigzag{0}}});
  runs.candidate().edit().tensors[0].placements["cp"] = trace::Shard{0, {}};
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 2);
  CHECK(causes[0].name == "wrong_layout_declared");  // nothing that follows is wrong
  CHECK(causes[0].axis == "cp");
  CHECK(causes[0].evidence.find(R"("placements": {"cp": )") != std::string::npos);
  CHECK(causes[1].name == "wrong_order");
}

TEST_CASE("shards declared whole are of another shape, and the cut is proposed") {
  TwoRuns runs(make_mesh({{"tp", 2}}));
  runs.put(make_entry("fc", {16, 4}), kWhole, kWhole, {{"tp", trace::Shard{0, {}}}});
  trace::TensorEntry& declared = runs.candidate().edit().tensors[0];
  declared.placements.clear();
  declared.shape = {8, 4};
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "wrong_layout_declared");
  CHECK(causes[0].evidence.find(R"("shape": [16, 4])") != std::string::npos);
}

TEST_CASE("a weight's gradient of an input whose chunks are swapped") {
  const Values x = random_values(64, 10);   // [16, 4]
  const Values dy = random_values(96, 11);  // [16, 6]
  const auto product = [&](const Values& input) {
    Values made(24, 0.0);
    for (std::size_t t = 0; t < 16; ++t) {
      for (std::size_t o = 0; o < 6; ++o) {
        for (std::size_t i = 0; i < 4; ++i) made[o * 4 + i] += dy[t * 6 + o] * input[t * 4 + i];
      }
    }
    return made;
  };
  TwoRuns runs(make_mesh({{"tp", 2}}));
  runs.put(make_entry("fc", {16, 4}, Kind::kInput), x);
  runs.put(make_entry("fc", {16, 6}, Kind::kGradOutput), dy);
  const Values swapped =
      rows_in_order(x, 4, {8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7});
  runs.put(make_entry("fc.weight", {6, 4}, Kind::kParamGrad), product(x), product(swapped));
  const std::vector<Cause> causes = runs.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "wrong_order");
  CHECK(causes[0].evidence.find("in the order 1 0") != std::string::npos);
}

}  // namespace
}  // namespace ttrace::localize::order_causes_test
