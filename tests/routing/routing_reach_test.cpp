#include "routing/routing_reach.h"

#include "localize/tiny_model.h"
#include "routing/routing_flips.h"
#include "support/catch.h"

namespace ttrace::routing::routing_reach_test {
namespace {

using localize::test::label;
using localize::test::Labels;
using localize::test::make_container;
using localize::test::make_module;
using localize::test::make_node;
using trace::Kind;

// layers.0 and layers.1: attention, then a router beside experts, a norm that runs before it.
std::vector<trace::Module> modules() {
  std::vector<trace::Module> found;
  std::string before = "embed";
  for (const std::string name : {"layers.0", "layers.1"}) {
    const std::string mlp = name + ".mlp";
    found.push_back(make_container(name, {before}, {name + ".attn", mlp}));
    found.push_back(make_module(name + ".attn", {before}));
    found.push_back(make_container(mlp, {name + ".attn"}, {name + ".attn", mlp + ".router"}));
    found.push_back(make_module(mlp + ".norm", {name + ".attn"}));
    found.push_back(make_module(mlp + ".router", {mlp + ".norm"}));
    // Rows picked by number: the graph does not say who picked them.
    found.push_back(make_module(mlp + ".experts.0", {name + ".attn"}));
    before = name;
  }
  found.push_back(make_container("loss", {}, {before}));
  return found;
}

std::vector<localize::FlowNode> nodes(std::uint64_t microbatches = 1) {
  std::vector<localize::FlowNode> found;
  for (std::uint64_t mb = 0; mb < microbatches; ++mb) {
    for (const trace::Module& module : modules()) {
      if (module.name == "loss") continue;
      found.push_back(make_node(Kind::kInput, module.name, mb));
      found.push_back(make_node(Kind::kOutput, module.name, mb));
      found.push_back(make_node(Kind::kGradOutput, module.name, mb));
    }
    found.push_back(make_node(Kind::kOutput, "embed", mb));
    found.push_back(make_node(Kind::kOutput, "layers.0.mlp.router[1]", mb));
    found.push_back(make_node(Kind::kLoss, "loss", mb));
  }
  found.push_back(make_node(Kind::kParam, "w"));
  return found;
}

struct Reached {
  Labels all;
  Labels apart;
};

Reached reached(const std::vector<localize::FlowNode>& all, const std::string& router,
                const std::vector<trace::Module>& flow_of = modules()) {
  const localize::Dataflow flow = localize::build_dataflow(all, flow_of);
  const RoutingReach reach = reach_of(all, flow, flow_of, localize::test::find_node(all, router));
  Reached found;
  for (const std::size_t i : reach.nodes) {
    found.all.insert(label(all[i]));
    if (reach.apart[i]) found.apart.insert(label(all[i]));
  }
  return found;
}

TEST_CASE("tokens lie apart from the router to the end of its layer") {
  const Reached found = reached(nodes(), "output:layers.0.mlp.router[1]@0");
  CHECK(found.apart == Labels{"output:layers.0.mlp.router@0", "output:layers.0.mlp.router[1]@0",
                              "input:layers.0.mlp.experts.0@0", "output:layers.0.mlp.experts.0@0",
                              "output:layers.0.mlp@0", "output:layers.0@0"});
}

TEST_CASE("later layers, the loss and gradients are reached, what came before is not") {
  const Reached found = reached(nodes(), "output:layers.0.mlp.router[1]@0");
  for (const char* name : {"input:layers.1@0", "output:layers.1.attn@0", "output:layers.1.mlp@0",
                           "output:layers.1.mlp.router@0", "loss:loss@0",
                           "grad_output:layers.1.attn@0", "grad_output:layers.0.attn@0"}) {
    CHECK(found.all.count(name) == 1);
    CHECK(found.apart.count(name) == 0);
  }
  for (const char* name :
       {"input:layers.0@0", "output:layers.0.attn@0", "output:layers.0.mlp.norm@0",
        "input:layers.0.mlp.router@0", "input:layers.0.mlp@0", "output:embed@0", "param:w"}) {
    CHECK(found.all.count(name) == 0);
  }
}

TEST_CASE("attention inside the layer mixes the tokens, whatever it is called") {
  for (const bool by_class : {false, true}) {
    std::vector<trace::Module> flow = modules();
    std::vector<localize::FlowNode> all = nodes();
    const std::string name = by_class ? "layers.0.mixer" : "layers.0.cross_attn";
    flow.push_back(make_module(name, {"layers.0.mlp"}));
    if (by_class) flow.back().class_name = "CrossAttention";
    all.push_back(make_node(Kind::kInput, name, 0));
    all.push_back(make_node(Kind::kOutput, name, 0));
    const Reached found = reached(all, "output:layers.0.mlp.router[1]@0", flow);
    CHECK(found.all.count("output:" + name + "@0") == 1);
    CHECK(found.apart.count("output:" + name + "@0") == 0);
    CHECK(found.apart.count("output:layers.0.mlp@0") == 1);
  }
}

TEST_CASE("other micro-batches are reached only through what they share") {
  const Reached found = reached(nodes(2), "output:layers.1.mlp.router@1");
  CHECK(found.all.count("output:layers.1@1") == 1);
  CHECK(found.all.count("output:layers.1@0") == 0);
  CHECK(found.all.count("loss:loss@0") == 0);
}

TEST_CASE("a router that is in no other module reaches what is downstream of it") {
  std::vector<trace::Module> flow{make_module("router", {}), make_module("experts", {"router"}),
                                  make_module("embed", {})};
  std::vector<localize::FlowNode> all{make_node(Kind::kOutput, "router", 0),
                                      make_node(Kind::kOutput, "experts", 0),
                                      make_node(Kind::kOutput, "embed", 0)};
  const Reached found = reached(all, "output:router@0", flow);
  CHECK(found.all == Labels{"output:router@0", "output:experts@0"});
  CHECK(found.apart == Labels{"output:router@0"});
}

}  // namespace
}  // namespace ttrace::routing::routing_reach_test
