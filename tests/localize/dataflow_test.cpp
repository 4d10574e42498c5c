#include "localize/dataflow.h"

#include <algorithm>
#include <map>
#include <random>

#include "localize/tiny_model.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::localize::dataflow_test {
namespace {

using test::Labels;
using test::make_node;
using trace::Kind;

std::vector<std::string> order_of(const std::vector<FlowNode>& nodes, const Dataflow& flow) {
  std::vector<std::string> names;
  for (const std::size_t i : flow.topological_order) names.push_back(test::label(nodes[i]));
  return names;
}

std::map<std::string, Labels> needs_of(const std::vector<FlowNode>& nodes, const Dataflow& flow) {
  std::map<std::string, Labels> needs;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    needs[test::label(nodes[i])] = test::labels(nodes, flow.depends_on[i]);
  }
  return needs;
}

// Every node once, every one after all that it depends on, no node on itself or twice on another.
bool is_sound(const std::vector<FlowNode>& nodes, const Dataflow& flow) {
  if (flow.depends_on.size() != nodes.size()) return false;
  if (flow.topological_order.size() != nodes.size()) return false;
  std::vector<bool> placed(nodes.size(), false);
  for (const std::size_t node : flow.topological_order) {
    if (placed.at(node)) return false;
    const std::vector<std::size_t>& needs = flow.depends_on[node];
    if (std::set<std::size_t>(needs.begin(), needs.end()).size() != needs.size()) return false;
    for (const std::size_t d : needs) {
      if (!placed.at(d)) return false;
    }
    placed[node] = true;
  }
  return true;
}

// Modules as a hostile manifest may give them: any name an input of any other, itself included.
std::vector<trace::Module> random_modules(std::mt19937& random) {
  const std::vector<std::string> values{"a", "b", "b[1]", "c", "a.b", "(model)", "loss", "[1]"};
  const auto pick = [&] { return values[random() % values.size()]; };
  std::vector<trace::Module> modules;
  for (const char* name : {"a", "b", "c", "a.b", "(model)", "loss"}) {
    if (random() % 5 == 0) continue;
    trace::Module module = test::make_module(name, {});
    for (auto i = random() % 4; i > 0; --i) module.inputs.push_back(pick());
    for (auto i = random() % 3; i > 0; --i) module.params.push_back(pick() + ".weight");
    if (random() % 2 == 0) {
      module.computed_from.emplace();
      for (auto i = random() % 4; i > 0; --i) module.computed_from->push_back(pick());
    }
    modules.push_back(std::move(module));
  }
  return modules;
}

std::vector<FlowNode> random_nodes(std::mt19937& random) {
  const std::vector<std::string> values{"a", "b", "b[1]", "c", "a.b", "(model)", "loss", "[1]"};
  std::vector<FlowNode> nodes;
  for (const Kind kind : trace::kAllKinds) {
    for (const std::string& value : values) {
      for (const std::uint64_t step : {0, 1}) {
        if (random() % 3 != 0) continue;
        std::optional<std::uint64_t> microbatch;
        if (random() % 2 == 0) microbatch = random() % 2;
        nodes.push_back(
            make_node(kind, random() % 4 == 0 ? value + ".weight" : value, microbatch, step));
        if (random() % 2 == 0) nodes.back().order = random() % 50;
      }
    }
  }
  std::sort(nodes.begin(), nodes.end(), [](const auto& x, const auto& y) { return x.key < y.key; });
  const auto same = [](const auto& x, const auto& y) { return x.key == y.key; };
  nodes.erase(std::unique(nodes.begin(), nodes.end(), same), nodes.end());
  return nodes;
}

TEST_CASE("records, nodes and their dependencies are put in the order of the flow together") {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<FlowNode> nodes = random_nodes(random);
    std::shuffle(nodes.begin(), nodes.end(), random);
    Dataflow flow = build_dataflow(nodes, random_modules(random));
    std::vector<comparison::TensorComparison> results(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) results[i].key = nodes[i].key;
    const std::vector<std::string> order = order_of(nodes, flow);
    const auto needs = needs_of(nodes, flow);
    order_by_data_flow(results, nodes, flow);
    CHECK(order_of(nodes, flow) == order);
    CHECK(needs_of(nodes, flow) == needs);
    CHECK(std::is_sorted(flow.topological_order.begin(), flow.topological_order.end()));
    for (std::size_t i = 0; i < nodes.size(); ++i) REQUIRE(results[i].key == nodes[i].key);
  }
}

TEST_CASE("the order of a step begins with parameters and ends with updated ones") {
  const std::vector<FlowNode> nodes = test::tiny_nodes(1, 2);
  const Dataflow flow = build_dataflow(nodes, test::tiny_modules());
  CHECK(flow.from_modules);
  REQUIRE(is_sound(nodes, flow));
  const std::vector<std::string> order = order_of(nodes, flow);
  CHECK(order.front() == "param:embed.weight");
  CHECK(order.back().find("1/param_after_step:") == 0);
  const auto place = [&order](const std::string& name) {
    return std::find(order.begin(), order.end(), name) - order.begin();
  };
  CHECK(place("output:embed@0") < place("output:layer.norm1@0"));
  CHECK(place("output:layer@0") < place("loss:loss@0"));
  CHECK(place("loss:loss@0") < place("grad_output:embed@0"));
  CHECK(place("param_grad:embed.weight@0") < place("main_grad:embed.weight"));
  CHECK(place("param_after_step:embed.weight") < place("1/param:embed.weight"));
}

TEST_CASE("nothing depends on itself or twice on the same") {
  std::vector<trace::Module> modules{test::make_module("m", {"m", "m"}, {"w", "w"})};
  const std::vector<FlowNode> nodes{make_node(Kind::kOutput, "m", 0),
                                    make_node(Kind::kInput, "m", 0), make_node(Kind::kParam, "w")};
  const Dataflow flow = build_dataflow(nodes, modules);
  CHECK(is_sound(nodes, flow));
  CHECK(needs_of(nodes, flow).at("output:m@0").count("output:m@0") == 0);
}

TEST_CASE("a tensor is not kept waiting for itself") {
  const std::vector<trace::Module> modules{test::make_module("a", {"a"}),
                                           test::make_module("b", {})};
  std::vector<FlowNode> nodes{make_node(Kind::kOutput, "a", 0), make_node(Kind::kOutput, "b", 0)};
  CHECK(order_of(nodes, build_dataflow(nodes, modules)) ==
        std::vector<std::string>{"output:a@0", "output:b@0"});
}

TEST_CASE("cutting a cycle leaves what is not on it") {
  const std::vector<trace::Module> modules{test::make_module("a", {"b"}, {"w"}),
                                           test::make_module("b", {"a"})};
  const std::vector<FlowNode> nodes{make_node(Kind::kOutput, "a", 0),
                                    make_node(Kind::kOutput, "b", 0), make_node(Kind::kParam, "w")};
  const auto needs = needs_of(nodes, build_dataflow(nodes, modules));
  CHECK(needs.at("output:a@0") == Labels{"param:w"});
  CHECK(needs.at("output:b@0") == Labels{"output:a@0"});
}

TEST_CASE("a cycle is cut where its first node in step, phase and order stands") {
  const std::vector<trace::Module> modules{
      test::make_module("a", {"b"}), test::make_module("b", {"c"}), test::make_module("c", {"a"})};
  std::vector<FlowNode> nodes{make_node(Kind::kOutput, "c", 0), make_node(Kind::kOutput, "a", 0),
                              make_node(Kind::kOutput, "b", 0)};
  CHECK(order_of(nodes, build_dataflow(nodes, modules)) ==
        std::vector<std::string>{"output:a@0", "output:c@0", "output:b@0"});
  nodes[2].order = 1;
  const Dataflow flow = build_dataflow(nodes, modules);
  CHECK(order_of(nodes, flow) ==
        std::vector<std::string>{"output:b@0", "output:a@0", "output:c@0"});
  CHECK(flow.depends_on[2].empty());
}

TEST_CASE("without modules the flow follows the execution order and says so") {
  std::vector<FlowNode> nodes{make_node(Kind::kOutput, "z", 0), make_node(Kind::kOutput, "a", 0),
                              make_node(Kind::kMainGrad, "w"), make_node(Kind::kParamGrad, "w", 0)};
  nodes[0].order = 0;
  nodes[1].order = 1;
  const Dataflow flow = build_dataflow(nodes, {});
  CHECK_FALSE(flow.from_modules);
  REQUIRE(is_sound(nodes, flow));
  CHECK(order_of(nodes, flow) ==
        std::vector<std::string>{"output:z@0", "output:a@0", "param_grad:w@0", "main_grad:w"});
}

TEST_CASE("no nodes make an empty flow") {
  const Dataflow flow = build_dataflow({}, test::tiny_modules());
  CHECK(flow.topological_order.empty());
}

TEST_CASE("property: any manifest gives an order without cycles, the same for any input order") {
  std::mt19937 random(20240611);
  std::size_t cut = 0;
  for (int round = 0; round < 400; ++round) {
    const std::vector<FlowNode> nodes = random_nodes(random);
    const std::vector<trace::Module> modules =
        round % 8 == 0 ? std::vector<trace::Module>{} : random_modules(random);
    const Dataflow flow = build_dataflow(nodes, modules);
    REQUIRE(is_sound(nodes, flow));
    std::vector<FlowNode> shuffled = nodes;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    const Dataflow again = build_dataflow(shuffled, modules);
    REQUIRE(order_of(shuffled, again) == order_of(nodes, flow));
    REQUIRE(needs_of(shuffled, again) == needs_of(nodes, flow));
    for (const trace::Module& module : modules) {
      cut += std::count(module.inputs.begin(), module.inputs.end(), module.name) > 0 ? 1 : 0;
    }
  }
  CHECK(cut > 100);  // the manifests were hostile indeed
}

TEST_CASE("a long chain of modules is ordered without deep recursion") {
  constexpr std::size_t kLength = 20000;
  std::vector<trace::Module> modules;
  std::vector<FlowNode> nodes;
  for (std::size_t i = 0; i < kLength; ++i) {
    const std::string name = base::concat("m", i);
    std::vector<std::string> inputs;
    if (i > 0) inputs.push_back(base::concat("m", i - 1));
    modules.push_back(test::make_module(name, std::move(inputs)));
    nodes.push_back(make_node(Kind::kOutput, name, 0));
  }
  std::reverse(nodes.begin(), nodes.end());
  const Dataflow flow = build_dataflow(nodes, modules);
  CHECK(is_sound(nodes, flow));
  CHECK(test::label(nodes[flow.topological_order.back()]) ==
        base::concat("output:m", kLength - 1, "@0"));
}

FlowNode at(std::uint64_t order, FlowNode node) {
  node.order = order;
  return node;
}

TEST_CASE("a scalar comes after the last activation before it, of its own micro-batch") {
  std::vector<FlowNode> nodes{
      at(0, make_node(Kind::kOutput, "a", 0)),    at(1, make_node(Kind::kScalar, "s", 0)),
      at(2, make_node(Kind::kOutput, "b", 0)),    at(3, make_node(Kind::kOutput, "c", 1)),
      at(4, make_node(Kind::kScalar, "t", 0)),    at(5, make_node(Kind::kScalar, "u")),
      at(6, make_node(Kind::kScalar, "v", 2)),    at(0, make_node(Kind::kScalar, "w", 0)),
      at(7, make_node(Kind::kParamGrad, "p", 0)), make_node(Kind::kScalar, "x", 0)};
  const auto before = last_before_scalars(nodes);
  CHECK(before[1] == std::optional<std::size_t>(0));
  CHECK(before[4] == std::optional<std::size_t>(2));
  CHECK(before[5] == std::optional<std::size_t>(3));
  for (const std::size_t i : {0, 2, 3, 6, 7, 8, 9}) CHECK_FALSE(before[i]);
}

TEST_CASE("a scalar's order counts on its own ranks and in its own step alone") {
  std::vector<FlowNode> nodes{at(0, make_node(Kind::kOutput, "a", 0)),
                              at(1, make_node(Kind::kScalar, "s", 0)),
                              at(1, make_node(Kind::kScalar, "s", 0, 1))};
  nodes[1].rank_group = std::string("/pp:1,");
  const auto before = last_before_scalars(nodes);
  CHECK_FALSE(before[1]);
  CHECK_FALSE(before[2]);
}

TEST_CASE("a scalar is downstream of what went wrong before it") {
  std::vector<FlowNode> nodes = test::tiny_nodes(1);
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].order = i;
  nodes.push_back(at(nodes.size(), make_node(Kind::kScalar, "lm_loss_sum", 0)));
  const Dataflow flow = build_dataflow(nodes, test::tiny_modules());
  CHECK(flow.depends_on.back().size() == 1);
}

TEST_CASE("what runs behind an update in its step follows from the update, and not the reverse") {
  const std::vector<trace::Module> modules{test::make_module("a", {})};
  std::vector<trace::Module> with_weight = modules;
  with_weight[0].params = {"a.weight"};
  const std::vector<FlowNode> nodes{at(0, make_node(Kind::kParam, "a.weight")),
                                    at(1, make_node(Kind::kOutput, "a", 0)),
                                    at(2, make_node(Kind::kParamGrad, "a.weight", 0)),
                                    at(3, make_node(Kind::kMainGrad, "a.weight")),
                                    at(4, make_node(Kind::kInput, "a", 1)),
                                    at(5, make_node(Kind::kOutput, "a", 1)),
                                    at(6, make_node(Kind::kParamGrad, "a.weight", 1)),
                                    at(7, make_node(Kind::kParamAfterStep, "a.weight"))};
  const Dataflow flow = build_dataflow(nodes, with_weight);
  CHECK(is_sound(nodes, flow));
  const auto has = [&](std::size_t node, std::size_t d) {
    const std::vector<std::size_t>& needs = flow.depends_on[node];
    return std::find(needs.begin(), needs.end(), d) != needs.end();
  };
  CHECK_FALSE(has(1, 3));
  CHECK(has(3, 2));
  CHECK_FALSE(has(3, 6));
  CHECK(has(4, 3));
  CHECK(has(5, 3));
  CHECK(has(5, 7));
}

TEST_CASE("holders are the coordinates that hold the tensor, however that is said") {
  trace::TensorEntry entry = ttrace::test::make_entry("a", {2});
  const auto holders = [&entry] { return rank_group(*layout::view_of(entry)); };
  CHECK(holders().empty());
  entry.placements = {{"tp", trace::Shard{0, std::nullopt}}};
  CHECK(holders().empty());
  entry.held_at = {{"pp", {1}}};
  const std::string held = holders();
  CHECK(held == "/pp:1,");
  entry.held_at.clear();
  entry.placements = {{"pp", trace::Only{1}}};
  CHECK(holders() == held);
  entry.mesh = "expert";
  CHECK(holders() == "expert/pp:1,");
}

}  // namespace
}  // namespace ttrace::localize::dataflow_test
