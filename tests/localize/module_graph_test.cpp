#include "localize/module_graph.h"

#include "localize/tiny_model.h"
#include "support/catch.h"

namespace ttrace::localize {
namespace {

using test::Labels;

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

TEST_CASE("a graph without modules is empty") {
  CHECK(ModuleGraph({}).empty());
  const std::vector<trace::Module> modules = test::tiny_modules();
  CHECK_FALSE(ModuleGraph(modules).empty());
}

}  // namespace
}  // namespace ttrace::localize
