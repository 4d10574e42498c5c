// A transformer of one layer as the collector would describe it, with the tensors of two
// micro-batches: residual edges, a container, a tied parameter, a module with two outputs, the
// loss.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "localize/dataflow.h"

namespace ttrace::localize::test {

using namespace ttrace::test;  // `test::` in this room means both

using Labels = std::set<std::string>;

inline trace::Module make_module(std::string name, std::vector<std::string> inputs,
                                 std::vector<std::string> params = {}) {
  trace::Module module;
  module.name = std::move(name);
  module.inputs = std::move(inputs);
  module.params = std::move(params);
  return module;
}

inline trace::Module make_container(std::string name, std::vector<std::string> inputs,
                                    std::vector<std::string> computed_from) {
  trace::Module module = make_module(std::move(name), std::move(inputs));
  module.computed_from = std::move(computed_from);
  return module;
}

// x = embed; a, a[1] = attn(norm1(x)); layer = x + a + mlp(norm2(x + a), a[1]); head tied to embed.
inline std::vector<trace::Module> tiny_modules() {
  return {make_container("(model)", {}, {"head"}),
          make_module("embed", {}, {"embed.weight"}),
          make_container("layer", {"embed"}, {"embed", "layer.attn", "layer.mlp"}),
          make_module("layer.norm1", {"embed"}, {"layer.norm1.weight"}),
          make_module("layer.attn", {"layer.norm1"}, {"layer.attn.weight"}),
          make_module("layer.norm2", {"embed", "layer.attn"}, {"layer.norm2.weight"}),
          make_module("layer.mlp", {"layer.norm2", "layer.attn[1]"}, {"layer.mlp.weight"}),
          make_module("head", {"layer"}, {"embed.weight"}),
          make_container("loss", {}, {"(model)"})};
}

inline FlowNode make_node(trace::Kind kind, std::string name,
                          std::optional<std::uint64_t> microbatch = std::nullopt,
                          std::uint64_t step = 0) {
  FlowNode node;
  node.key.kind = kind;
  node.key.name = std::move(name);
  node.key.microbatch = microbatch;
  node.key.step = step;
  return node;
}

inline std::vector<FlowNode> tiny_nodes(std::uint64_t microbatches = 2, std::uint64_t steps = 1) {
  using trace::Kind;
  std::vector<FlowNode> nodes;
  const std::vector<std::string> params{"embed.weight", "layer.norm1.weight", "layer.attn.weight",
                                        "layer.norm2.weight", "layer.mlp.weight"};
  for (std::uint64_t step = 0; step < steps; ++step) {
    for (std::uint64_t mb = 0; mb < microbatches; ++mb) {
      for (const char* name : {"(model)", "embed", "layer", "layer.norm1", "layer.attn",
                               "layer.norm2", "layer.mlp", "layer.mlp[1]", "head"}) {
        nodes.push_back(make_node(Kind::kInput, name, mb, step));
      }
      for (const char* name : {"(model)", "embed", "layer", "layer.norm1", "layer.attn",
                               "layer.attn[1]", "layer.norm2", "layer.mlp", "head"}) {
        nodes.push_back(make_node(Kind::kOutput, name, mb, step));
        nodes.push_back(make_node(Kind::kGradOutput, name, mb, step));
      }
      nodes.push_back(make_node(Kind::kLoss, "loss", mb, step));
      for (const std::string& param : params) {
        nodes.push_back(make_node(Kind::kParamGrad, param, mb, step));
      }
    }
    for (const std::string& param : params) {
      nodes.push_back(make_node(Kind::kParam, param, std::nullopt, step));
      nodes.push_back(make_node(Kind::kMainGrad, param, std::nullopt, step));
      nodes.push_back(make_node(Kind::kParamAfterStep, param, std::nullopt, step));
    }
    nodes.push_back(make_node(Kind::kGradNorm, "grad_norm", std::nullopt, step));
  }
  return nodes;
}

// "output:layer.attn@1": micro-batch 1; "1/param:embed.weight": step 1, no micro-batch.
inline std::string label(const FlowNode& node) {
  const trace::TensorKey& key = node.key;
  std::string text = key.step == 0 ? "" : base::concat(key.step, "/");
  text += base::concat(kind_name(key.kind), ":", key.name);
  if (key.microbatch) text += base::concat("@", *key.microbatch);
  return text;
}

inline std::size_t find_node(const std::vector<FlowNode>& nodes, const std::string& wanted) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (label(nodes[i]) == wanted) return i;
  }
  throw std::out_of_range(base::concat("no node ", wanted));
}

inline Labels labels(const std::vector<FlowNode>& nodes, const std::vector<std::size_t>& indices) {
  Labels found;
  for (const std::size_t i : indices) found.insert(label(nodes[i]));
  return found;
}

}  // namespace ttrace::localize::test
