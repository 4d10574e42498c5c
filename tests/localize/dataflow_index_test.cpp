#include "localize/dataflow_index.h"

#include "localize/tiny_model.h"
#include "support/catch.h"

namespace ttrace::localize::dataflow_index_test {
namespace {

using test::Labels;
using test::make_node;
using trace::Kind;

Labels names(const std::vector<const trace::Module*>& modules) {
  Labels found;
  for (const trace::Module* module : modules) found.insert(module->name);
  return found;
}

TEST_CASE("modules are found by name, consumers and users turned around") {
  const std::vector<trace::Module> modules = test::tiny_modules();
  const ModuleGraph graph(modules);
  REQUIRE(graph.find("layer.attn") != nullptr);
  CHECK(graph.find("layer.attn")->name == "layer.attn");
  CHECK(graph.find("layer.attn[1]") == nullptr);
  CHECK(graph.find("") == nullptr);
  CHECK(names(graph.consumers("embed")) == Labels{"layer", "layer.norm1", "layer.norm2"});
  CHECK(names(graph.consumers("layer.attn")) == Labels{"layer.norm2"});
  CHECK(names(graph.consumers("layer.attn[1]")) == Labels{"layer.mlp"});
  CHECK(names(graph.consumers("loss")).empty());
  CHECK(names(graph.users("embed.weight")) == Labels{"embed", "head"});
  CHECK(names(graph.users("nobody")).empty());
}

TEST_CASE("returners are the containers around a value, not those that take it as an input") {
  const std::vector<trace::Module> modules = test::tiny_modules();
  const ModuleGraph graph(modules);
  CHECK(names(graph.returners("layer.mlp")) == Labels{"layer"});
  CHECK(names(graph.returners("head")) == Labels{"(model)"});
  CHECK(names(graph.returners("(model)")) == Labels{"loss"});
  // The layer adds its input to its output: it is a consumer already.
  CHECK(names(graph.returners("embed")).empty());
  CHECK(names(graph.returners("layer.norm1")).empty());
}

TEST_CASE("a leaf's outputs come from its inputs, a container's from what it says") {
  CHECK(ModuleGraph::sources_of(test::make_module("m", {"a", "b"})) ==
        std::vector<std::string>{"a", "b"});
  CHECK(ModuleGraph::sources_of(test::make_container("m", {"a"}, {"c"})) ==
        std::vector<std::string>{"c"});
  CHECK(ModuleGraph::sources_of(test::make_container("m", {"a"}, {})).empty());
}

std::vector<FlowNode> some_nodes() {
  return {make_node(Kind::kOutput, "m", 0),     make_node(Kind::kOutput, "m", 1),
          make_node(Kind::kOutput, "m[1]", 0),  make_node(Kind::kOutput, "m[x]", 0),
          make_node(Kind::kOutput, "m.n", 0),   make_node(Kind::kOutput, "m", 0, 1),
          make_node(Kind::kGradOutput, "m", 0), make_node(Kind::kParam, "m.weight"),
          make_node(Kind::kOutput, "shared"),   make_node(Kind::kOutput, "l", 0)};
}

TEST_CASE("a key with a micro-batch finds its own and those of the whole step") {
  const std::vector<FlowNode> nodes = some_nodes();
  const NodeIndex index(nodes);
  const trace::TensorKey& like = nodes[0].key;
  CHECK(test::labels(nodes, index.find(like, Kind::kOutput, "m")) == Labels{"output:m@0"});
  CHECK(test::labels(nodes, index.find(like, Kind::kOutput, "shared")) == Labels{"output:shared"});
  CHECK(test::labels(nodes, index.find(like, Kind::kParam, "m.weight")) ==
        Labels{"param:m.weight"});
  CHECK(index.find(like, Kind::kParam, "m").empty());
}

TEST_CASE("a key of the whole step finds all micro-batches") {
  const std::vector<FlowNode> nodes = some_nodes();
  const NodeIndex index(nodes);
  const trace::TensorKey like = make_node(Kind::kMainGrad, "w").key;
  CHECK(test::labels(nodes, index.find(like, Kind::kOutput, "m")) ==
        Labels{"output:m@0", "output:m@1"});
}

TEST_CASE("the values of a module are those with its name before the brackets") {
  const std::vector<FlowNode> nodes = some_nodes();
  const NodeIndex index(nodes);
  CHECK(test::labels(nodes, index.find_values(nodes[0].key, Kind::kOutput, "m")) ==
        Labels{"output:m@0", "output:m[1]@0", "output:m[x]@0"});
  CHECK(index.find_values(nodes[0].key, Kind::kOutput, "nobody").empty());
  CHECK(index.find_values(nodes[0].key, Kind::kLoss, "m").empty());
}

TEST_CASE("all tensors of a kind are found in their step") {
  const std::vector<FlowNode> nodes = some_nodes();
  const NodeIndex index(nodes);
  CHECK(test::labels(nodes, index.find_kind(nodes[5].key, Kind::kOutput)) ==
        Labels{"1/output:m@0"});
  CHECK(test::labels(nodes, index.find_kind(nodes[1].key, Kind::kOutput)) ==
        Labels{"output:m@1", "output:shared"});
  CHECK(index.find_kind(nodes[0].key, Kind::kGradNorm).empty());
}

TEST_CASE("another step is searched whatever the micro-batch") {
  const std::vector<FlowNode> nodes = some_nodes();
  const NodeIndex index(nodes);
  CHECK(test::labels(nodes, index.find_in_step(0, Kind::kOutput, "m")) ==
        Labels{"output:m@0", "output:m@1"});
  CHECK(index.find_in_step(7, Kind::kOutput, "m").empty());
}

TEST_CASE("all calls and copies of a tensor are found together") {
  std::vector<FlowNode> nodes{make_node(Kind::kOutput, "m", 0), make_node(Kind::kOutput, "m", 0),
                              make_node(Kind::kOutput, "m", 0)};
  nodes[1].key.call = 1;
  nodes[2].key.copy = 1;
  const NodeIndex index(nodes);
  CHECK(index.find(nodes[0].key, Kind::kOutput, "m").size() == 3);
}

}  // namespace
}  // namespace ttrace::localize::dataflow_index_test
