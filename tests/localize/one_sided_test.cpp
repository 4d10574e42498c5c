#include "localize/one_sided.h"

#include "base/text.h"
#include "localize/frontier.h"
#include "localize/tiny_model.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::localize::one_sided_test {
namespace {

using comparison::TensorComparison;
using judge::Outcome;
using test::make_node;
using trace::Kind;
using Names = std::vector<std::string>;

std::vector<std::string> groups(const std::vector<FlowNode>& nodes,
                                const std::vector<std::size_t>& missing,
                                judge::Outcome others = judge::Outcome::kMatch) {
  std::vector<judge::Outcome> outcomes(nodes.size(), others);
  for (const std::size_t i : missing) outcomes[i] = judge::Outcome::kMissing;
  return one_sided_groups(nodes, outcomes);
}

const std::vector<FlowNode> kLayers{
    make_node(Kind::kOutput, "layers.0.mlp", 0),    make_node(Kind::kParam, "layers.0.mlp.weight"),
    make_node(Kind::kOutput, "layers.1.mlp", 0),    make_node(Kind::kOutput, "layers.1.mlp[1]", 0),
    make_node(Kind::kParam, "layers.1.mlp.weight"), make_node(Kind::kOutput, "layers.10.mlp", 0)};

TEST_CASE("tensors that are not missing have no group") {
  CHECK(groups(kLayers, {}) == std::vector<std::string>(6));
}

TEST_CASE("a missing tensor whose module is otherwise there is told by its own name") {
  CHECK(groups(kLayers, {2})[2] == "layers.1.mlp · output · step 0 · mb 0");
}

TEST_CASE("the outermost module that is missing altogether names the group") {
  const auto found = groups(kLayers, {2, 3, 4});
  CHECK(found[2] == "layers.1 (step 0)");
  CHECK(found[3] == found[2]);
  CHECK(found[4] == found[2]);
  // layers.10 does not belong to layers.1.
  CHECK(found[5].empty());
}

TEST_CASE("all layers missing are one group") {
  std::vector<FlowNode> nodes = kLayers;
  nodes.push_back(make_node(Kind::kLoss, "loss", 0));
  nodes.push_back(make_node(Kind::kParam, "embed.weight"));
  nodes.push_back(make_node(Kind::kOutput, "embed", 0));
  const auto found = groups(nodes, {0, 1, 2, 3, 4, 5});
  for (std::size_t i = 0; i < 6; ++i) CHECK(found[i] == "layers (step 0)");
}

TEST_CASE("a kind that is missing altogether is told before modules, a single tensor is not") {
  const auto found = groups(kLayers, {1, 4});
  CHECK(found[1] == "every param of step 0");
  CHECK(found[4] == found[1]);
  std::vector<FlowNode> nodes = kLayers;
  nodes.push_back(make_node(Kind::kLoss, "loss", 0));
  CHECK(groups(nodes, {6})[6] == "loss (step 0)");
}

TEST_CASE("steps are told apart") {
  std::vector<FlowNode> nodes = kLayers;
  nodes.push_back(make_node(Kind::kOutput, "layers.1.mlp", 0, 1));
  CHECK(groups(nodes, {6})[6] == "step 1");
  CHECK(groups(nodes, {2, 3, 4})[2] == "layers.1 (step 0)");
}

TEST_CASE("what the candidate alone has is told by itself and does not hide a missing module") {
  std::vector<FlowNode> nodes = kLayers;
  nodes.push_back(make_node(Kind::kOutput, "layers.1.mlp.extra", 0));
  std::vector<judge::Outcome> outcomes(nodes.size(), judge::Outcome::kMatch);
  for (const std::size_t i : {2, 3, 4}) outcomes[i] = judge::Outcome::kMissing;
  outcomes[6] = judge::Outcome::kExtra;
  const auto found = one_sided_groups(nodes, outcomes);
  CHECK(found[2] == "layers.1 (step 0)");
  CHECK(found[6] == "layers.1 (step 0)");  // all that the candidate has of it
}

TEST_CASE("a name that is nothing but a number in brackets is a name") {
  const std::vector<FlowNode> nodes{make_node(Kind::kOutput, "[1]", 0),
                                    make_node(Kind::kOutput, "[2]", 0),
                                    make_node(Kind::kParam, "w")};
  CHECK(groups(nodes, {0})[0] == "[1] (step 0)");
}

TensorComparison result_of(const std::string& name, Outcome outcome, tensor::Shape shape = {4},
                           Kind kind = Kind::kParam) {
  TensorComparison result;
  result.key = ttrace::test::make_key(name, kind);
  result.outcome = outcome;
  result.shape = std::move(shape);
  return result;
}

std::vector<Names> nearest_of(std::vector<TensorComparison> results) {
  find_nearest_names(results);
  std::vector<Names> nearest;
  for (const TensorComparison& result : results) nearest.push_back(*result.nearest);
  return nearest;
}

TEST_CASE("a tensor that one side lacks gets the most similar names of the other side") {
  CHECK(
      nearest_of({result_of("layers.0.fc", Outcome::kMissing), result_of("h.0.ln", Outcome::kExtra),
                  result_of("h.layers.0.fc1", Outcome::kExtra)}) ==
      std::vector<Names>{{"h.layers.0.fc1", "h.0.ln"}, {"layers.0.fc"}, {"layers.0.fc"}});
}

TEST_CASE("only tensors of the same shape and kind can be meant") {
  const std::vector<TensorComparison> results{
      result_of("a", Outcome::kMissing, {4, 2}), result_of("b", Outcome::kExtra, {2, 4}),
      result_of("c", Outcome::kExtra, {4, 2}, Kind::kMainGrad),
      result_of("d", Outcome::kExtra, {4, 2})};
  CHECK(nearest_of(results) == std::vector<Names>{{"d"}, {}, {}, {"a"}});
}

TEST_CASE("tensors that both sides have are nobody's other name") {
  CHECK(nearest_of({result_of("a", Outcome::kMissing), result_of("aa", Outcome::kMatch),
                    result_of("ab", Outcome::kDiverged), result_of("ac", Outcome::kSkippedByRule),
                    result_of("ad", Outcome::kIncomparable)}) == std::vector<Names>(5));
  CHECK(nearest_of({result_of("a", Outcome::kExtra), result_of("b", Outcome::kExtra)}) ==
        std::vector<Names>(2));
  CHECK(nearest_of({}).empty());
}

TEST_CASE("at most three names are given, each once") {
  std::vector<TensorComparison> results{result_of("w", Outcome::kMissing)};
  for (const char* name : {"w1", "w2", "w3", "w4"}) {
    results.push_back(result_of(name, Outcome::kExtra));
    results.push_back(result_of(name, Outcome::kExtra));
    results.back().key.step = 1;
  }
  CHECK(nearest_of(results)[0] == Names{"w1", "w2", "w3"});
}

TEST_CASE("a name of several steps and micro-batches has the same answer everywhere") {
  std::vector<TensorComparison> results{result_of("a", Outcome::kMissing),
                                        result_of("a", Outcome::kMissing),
                                        result_of("b", Outcome::kExtra)};
  results[1].key.microbatch = 1;
  CHECK(nearest_of(results) == std::vector<Names>{{"b"}, {"b"}, {"a"}});
}

TEST_CASE("two whole models are not compared name by name") {
  std::vector<TensorComparison> results;
  for (int i = 0; i < 1000; ++i) {
    results.push_back(result_of(base::concat("model.layers.", i), Outcome::kMissing));
    results.push_back(result_of(base::concat("decoder.layers.", i), Outcome::kExtra));
  }
  const auto nearest = nearest_of(results);
  CHECK(nearest[0].at(0) == "decoder.layers.0");
  CHECK(nearest.back().empty());
}

}  // namespace
}  // namespace ttrace::localize::one_sided_test
