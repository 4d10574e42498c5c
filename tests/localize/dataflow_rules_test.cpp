#include "localize/dataflow_rules.h"

#include <cstdint>

#include "localize/dataflow_index.h"
#include "localize/tiny_model.h"
#include "support/catch.h"

namespace ttrace::localize::dataflow_rules_test {
namespace {

using test::Labels;
using test::make_node;
using trace::Kind;

class TinyModel {
 public:
  explicit TinyModel(std::vector<FlowNode> nodes = test::tiny_nodes(),
                     std::vector<trace::Module> modules = test::tiny_modules())
      : nodes_(std::move(nodes)), modules_(std::move(modules)) {}

  Labels needs(const std::string& name) const {
    const NodeIndex index(nodes_);
    const ModuleGraph graph(modules_);
    return test::labels(nodes_, dependencies(index, graph, test::find_node(nodes_, name)));
  }

 private:
  std::vector<FlowNode> nodes_;
  std::vector<trace::Module> modules_;
};

TEST_CASE("a module's inputs come from the outputs that reach them, residual edges included") {
  const TinyModel model;
  CHECK(model.needs("input:(model)@0").empty());
  CHECK(model.needs("input:embed@0") == Labels{"input:(model)@0"});
  CHECK(model.needs("input:layer@1") == Labels{"output:embed@1", "input:(model)@1"});
  CHECK(model.needs("input:layer.norm1@0") == Labels{"output:embed@0", "input:(model)@0"});
  CHECK(model.needs("input:layer.norm2@0") ==
        Labels{"output:embed@0", "output:layer.attn@0", "input:(model)@0"});
  const Labels mlp{"output:layer.norm2@0", "output:layer.attn[1]@0", "input:(model)@0"};
  CHECK(model.needs("input:layer.mlp@0") == mlp);
  CHECK(model.needs("input:layer.mlp[1]@0") == mlp);
}

TEST_CASE("an output comes from the module's inputs, its sources and its parameters") {
  const TinyModel model;
  CHECK(model.needs("output:embed@1") == Labels{"input:embed@1", "param:embed.weight"});
  CHECK(model.needs("output:layer.norm2@0") == Labels{"input:layer.norm2@0", "output:embed@0",
                                                      "output:layer.attn@0",
                                                      "param:layer.norm2.weight"});
  const Labels attention{"input:layer.attn@0", "output:layer.norm1@0", "param:layer.attn.weight"};
  CHECK(model.needs("output:layer.attn@0") == attention);
  CHECK(model.needs("output:layer.attn[1]@0") == attention);
  CHECK(model.needs("output:layer.mlp@0") ==
        Labels{"input:layer.mlp@0", "input:layer.mlp[1]@0", "output:layer.norm2@0",
               "output:layer.attn[1]@0", "param:layer.mlp.weight"});
}

TEST_CASE("a container's output comes from its inner modules and what bypasses them") {
  const TinyModel model;
  CHECK(model.needs("output:layer@0") ==
        Labels{"input:layer@0", "output:embed@0", "output:layer.attn@0", "output:layer.mlp@0"});
  CHECK(model.needs("output:(model)@0") == Labels{"input:(model)@0", "output:head@0"});
}

TEST_CASE("the loss comes from what its entry says, or from the model's output") {
  CHECK(TinyModel().needs("loss:loss@1") == Labels{"output:(model)@1"});
  std::vector<trace::Module> modules = test::tiny_modules();
  modules.pop_back();
  CHECK(TinyModel(test::tiny_nodes(), modules).needs("loss:loss@0") == Labels{"output:(model)@0"});
}

TEST_CASE("an output's gradient comes back through all consumers and containers") {
  const TinyModel model;
  CHECK(model.needs("grad_output:(model)@0") == Labels{"loss:loss@0", "output:(model)@0"});
  CHECK(model.needs("grad_output:head@0") == Labels{"grad_output:(model)@0", "output:head@0"});
  CHECK(model.needs("grad_output:layer@0") ==
        Labels{"grad_output:head@0", "input:head@0", "output:head@0", "param:embed.weight"});
  CHECK(model.needs("grad_output:layer.mlp@1") == Labels{"grad_output:layer@1"});
  const Labels through_mlp{"grad_output:layer.mlp@0", "input:layer.mlp@0", "input:layer.mlp[1]@0",
                           "output:layer.mlp@0", "param:layer.mlp.weight"};
  CHECK(model.needs("grad_output:layer.norm2@0") == through_mlp);
  CHECK(model.needs("grad_output:layer.attn[1]@0") == through_mlp);
  CHECK(model.needs("grad_output:layer.attn@0") ==
        Labels{"grad_output:layer.norm2@0", "input:layer.norm2@0", "output:layer.norm2@0",
               "param:layer.norm2.weight", "grad_output:layer@0"});
  CHECK(model.needs("grad_output:embed@0") ==
        Labels{"grad_output:layer@0", "input:layer@0", "output:layer@0",
               "grad_output:layer.norm1@0", "input:layer.norm1@0", "output:layer.norm1@0",
               "param:layer.norm1.weight", "grad_output:layer.norm2@0", "input:layer.norm2@0",
               "output:layer.norm2@0", "param:layer.norm2.weight"});
}

TEST_CASE("the model's gradient comes from the loss that was computed from it, not from another") {
  std::vector<FlowNode> nodes = test::tiny_nodes();
  nodes.push_back(make_node(Kind::kLoss, "auxiliary", 0));
  CHECK(TinyModel(nodes).needs("grad_output:(model)@0") ==
        Labels{"loss:loss@0", "output:(model)@0"});
}

TEST_CASE("a gradient that nothing is known to consume hangs on the loss") {
  std::vector<FlowNode> nodes = test::tiny_nodes();
  nodes.push_back(make_node(Kind::kGradOutput, "stranger", 1));
  CHECK(TinyModel(nodes).needs("grad_output:stranger@1") == Labels{"loss:loss@1"});
}

TEST_CASE("an input's gradient comes from the module's own output gradients and inputs") {
  std::vector<FlowNode> nodes = test::tiny_nodes();
  nodes.push_back(make_node(Kind::kGradInput, "layer.attn", 0));
  CHECK(TinyModel(nodes).needs("grad_input:layer.attn@0") ==
        Labels{"grad_output:layer.attn@0", "grad_output:layer.attn[1]@0", "input:layer.attn@0"});
}

TEST_CASE("an output's gradient comes back through its consumers' input gradients") {
  std::vector<FlowNode> nodes = test::tiny_nodes();
  nodes.push_back(make_node(Kind::kGradInput, "layer.attn", 0));
  const Labels needs = TinyModel(nodes).needs("grad_output:layer.norm1@0");
  CHECK(needs.count("grad_input:layer.attn@0") == 1);
  CHECK(needs.count("grad_output:layer.attn@0") == 1);
}

TEST_CASE("a raw gradient comes from the inputs and output gradients of all users") {
  const TinyModel model;
  CHECK(model.needs("param_grad:layer.attn.weight@1") ==
        Labels{"input:layer.attn@1", "grad_output:layer.attn@1", "grad_output:layer.attn[1]@1"});
  CHECK(model.needs("param_grad:embed.weight@0") ==
        Labels{"input:embed@0", "grad_output:embed@0", "input:head@0", "grad_output:head@0"});
}

TEST_CASE("a main gradient comes from the raw ones of all micro-batches") {
  CHECK(TinyModel().needs("main_grad:layer.mlp.weight") ==
        Labels{"param_grad:layer.mlp.weight@0", "param_grad:layer.mlp.weight@1"});
}

TEST_CASE("a main gradient without recorded raw ones comes from what those would") {
  std::vector<FlowNode> nodes{
      make_node(Kind::kMainGrad, "layer.norm1.weight"), make_node(Kind::kInput, "layer.norm1", 0),
      make_node(Kind::kInput, "layer.norm1", 1), make_node(Kind::kGradOutput, "layer.norm1", 1),
      make_node(Kind::kGradOutput, "layer.attn", 1)};
  CHECK(TinyModel(nodes).needs("main_grad:layer.norm1.weight") ==
        Labels{"input:layer.norm1@0", "input:layer.norm1@1", "grad_output:layer.norm1@1"});
}

TEST_CASE("the gradient norm comes from all main gradients of its step") {
  const TinyModel model(test::tiny_nodes(1, 2));
  CHECK(model.needs("1/grad_norm:grad_norm") ==
        Labels{"1/main_grad:embed.weight", "1/main_grad:layer.norm1.weight",
               "1/main_grad:layer.attn.weight", "1/main_grad:layer.norm2.weight",
               "1/main_grad:layer.mlp.weight"});
}

TEST_CASE("an updated parameter comes from its gradient, its old value and the norm") {
  CHECK(TinyModel().needs("param_after_step:embed.weight") ==
        Labels{"main_grad:embed.weight", "param:embed.weight", "grad_norm:grad_norm"});
}

TEST_CASE("the next step begins with the parameters this one left") {
  const TinyModel model(test::tiny_nodes(1, 2));
  CHECK(model.needs("1/param:embed.weight") == Labels{"param_after_step:embed.weight"});
  CHECK(model.needs("param:embed.weight").empty());
  // No step comes before the first, not even the last that a number can name.
  std::vector<FlowNode> nodes{make_node(Kind::kParam, "w"),
                              make_node(Kind::kParamAfterStep, "w", std::nullopt, UINT64_MAX)};
  CHECK(TinyModel(nodes).needs("param:w").empty());
}

TEST_CASE("optimizer state was made by the step before, of the parameter its name begins with") {
  std::vector<FlowNode> nodes = test::tiny_nodes(1, 2);
  const std::string name = "embed.weight.exp_avg";
  for (const std::uint64_t step : {0, 1}) {
    nodes.push_back(make_node(Kind::kOptimizerState, name, std::nullopt, step));
    nodes.push_back(make_node(Kind::kOptimizerState, "nobody.exp_avg", std::nullopt, step));
  }
  const TinyModel model(nodes);
  CHECK(model.needs("optimizer_state:embed.weight.exp_avg").empty());
  CHECK(model.needs("1/optimizer_state:embed.weight.exp_avg") ==
        Labels{"optimizer_state:embed.weight.exp_avg", "grad_norm:grad_norm",
               "main_grad:embed.weight", "param_after_step:embed.weight"});
  CHECK(model.needs("1/optimizer_state:nobody.exp_avg") ==
        Labels{"optimizer_state:nobody.exp_avg", "grad_norm:grad_norm"});
}

TEST_CASE("an updated parameter that was replayed does not follow from its gradient") {
  std::vector<FlowNode> nodes{make_node(Kind::kParam, "w"),
                              make_node(Kind::kMainGrad, "w"),
                              make_node(Kind::kGradNorm, "grad_norm"),
                              make_node(Kind::kOptimizerState, "w.exp_avg"),
                              make_node(Kind::kOptimizerState, "w.more.exp_avg"),
                              make_node(Kind::kOptimizerState, "w2.exp_avg"),
                              make_node(Kind::kParamAfterStep, "w")};
  const Labels replayed{"param:w", "grad_norm:grad_norm", "optimizer_state:w.exp_avg"};
  Labels judged = replayed;
  judged.insert("main_grad:w");
  CHECK(TinyModel(nodes).needs("param_after_step:w") == judged);
  nodes.back().replayed = true;
  CHECK(TinyModel(nodes).needs("param_after_step:w") == replayed);
}

TEST_CASE("an output comes from the buffers of its module, and those from the step before") {
  std::vector<FlowNode> nodes = test::tiny_nodes(1, 2);
  for (const std::uint64_t step : {0, 1}) {
    nodes.push_back(make_node(Kind::kBuffer, "layer.attn.mask", std::nullopt, step));
    nodes.push_back(make_node(Kind::kBuffer, "layer.attn.rotary.inv_freq", std::nullopt, step));
    nodes.push_back(make_node(Kind::kBuffer, "layer.attn2.mask", std::nullopt, step));
    nodes.push_back(make_node(Kind::kBuffer, "seen", std::nullopt, step));
  }
  const TinyModel model(nodes);
  CHECK(model.needs("output:layer.attn@0") == Labels{"input:layer.attn@0", "output:layer.norm1@0",
                                                     "param:layer.attn.weight",
                                                     "buffer:layer.attn.mask"});
  CHECK(model.needs("output:(model)@0") ==
        Labels{"input:(model)@0", "output:head@0", "buffer:seen"});
  CHECK(model.needs("buffer:layer.attn.mask").empty());
  CHECK(model.needs("1/buffer:layer.attn.mask") ==
        Labels{"buffer:layer.attn.mask", "input:layer.attn@0", "output:layer.attn@0",
               "output:layer.attn[1]@0"});
  CHECK(model.needs("1/buffer:seen") ==
        Labels{"buffer:seen", "input:(model)@0", "output:(model)@0"});
}

TEST_CASE("scalars and indices come from nothing that the data flow knows") {
  std::vector<FlowNode> nodes = test::tiny_nodes();
  for (const Kind kind : {Kind::kScalar, Kind::kIndex}) {
    nodes.push_back(make_node(kind, "layer.attn", 0));
  }
  const TinyModel model(nodes);
  CHECK(model.needs("scalar:layer.attn@0").empty());
  CHECK(model.needs("index:layer.attn@0").empty());
}

TEST_CASE("without modules activations are chained in execution order, gradients hang on it") {
  std::vector<FlowNode> nodes{
      make_node(Kind::kGradOutput, "a", 0),       make_node(Kind::kOutput, "b", 0),
      make_node(Kind::kParam, "a.weight"),        make_node(Kind::kOutput, "a", 0),
      make_node(Kind::kParamGrad, "a.weight", 0), make_node(Kind::kLoss, "loss", 0),
      make_node(Kind::kOutput, "a", 0, 1),        make_node(Kind::kGradInput, "unordered", 0)};
  const std::vector<std::uint64_t> order{5, 2, 0, 1, 4, 3, 9};
  for (std::size_t i = 0; i < order.size(); ++i) nodes[i].order = order[i];
  const auto chain = execution_chain(nodes);
  const auto before = [&](const std::string& name) {
    return test::labels(nodes, chain[test::find_node(nodes, name)]);
  };
  CHECK(before("param:a.weight").empty());
  CHECK(before("output:a@0") == Labels{"param:a.weight"});
  CHECK(before("output:b@0") == Labels{"output:a@0"});
  CHECK(before("loss:loss@0") == Labels{"output:b@0"});
  CHECK(before("param_grad:a.weight@0") == Labels{"loss:loss@0"});
  CHECK(before("grad_output:a@0") == Labels{"loss:loss@0"});
  CHECK(before("grad_input:unordered@0") == Labels{"grad_output:a@0"});
  CHECK(before("1/output:a@0").empty());
}

TEST_CASE("tensors of other ranks are chained apart, whose orders say nothing of each other") {
  std::vector<FlowNode> nodes{make_node(Kind::kParam, "w"), make_node(Kind::kOutput, "a", 0),
                              make_node(Kind::kOutput, "b", 0), make_node(Kind::kOutput, "c", 0),
                              make_node(Kind::kOutput, "d", 0)};
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    nodes[i].order = i % 2;
    nodes[i].rank_group = std::string(i <= 2 ? "/pp:0," : "/pp:1,");
  }
  const auto chain = execution_chain(nodes);
  const auto before = [&](const std::string& name) {
    return test::labels(nodes, chain[test::find_node(nodes, name)]);
  };
  CHECK(before("output:b@0") == Labels{"param:w"});
  CHECK(before("output:a@0") == Labels{"output:b@0"});
  CHECK(before("output:d@0") == Labels{"param:w"});
  CHECK(before("output:c@0") == Labels{"output:d@0"});
}

}  // namespace
}  // namespace ttrace::localize::dataflow_rules_test
