#include "routing/routing_reach.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <string_view>

#include "routing/routing_flips.h"

namespace ttrace::routing {
namespace {

using trace::Kind;
using trace::TensorKey;

std::string_view around(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

bool is_number(std::string_view word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "decoder.layers.1" of "decoder.layers.1.mlp.router"; the module around it if none is numbered.
std::string_view layer_around(std::string_view module) {
  for (std::string_view name = around(module); !name.empty(); name = around(name)) {
    if (is_number(name.substr(name.rfind('.') + 1))) return name;
  }
  return around(module);
}

bool is_within(std::string_view name, std::string_view module) {
  return !module.empty() && name.starts_with(module) &&
         (name.size() == module.size() || name[module.size()] == '.');
}

bool says_attention(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.find("att") != std::string::npos;
}

class Reach {
 public:
  Reach(const std::vector<localize::FlowNode>& nodes, const localize::Dataflow& flow,
        const std::vector<trace::Module>& modules, std::size_t router)
      : nodes_(nodes),
        flow_(flow),
        router_(nodes[router].key),
        module_(trace::module_of_value(router_.name)),
        beside_(around(module_)),
        layer_(layer_around(module_)),
        dependants_(nodes.size()) {
    for (const trace::Module& m : modules) classes_.emplace(m.name, m.class_name);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const std::size_t d : flow.depends_on[i]) dependants_[d].push_back(i);
    }
    before_ = localize::reached(flow_.depends_on, {router});
  }

  RoutingReach find() const {
    std::vector<std::size_t> seeds;
    std::vector<std::size_t> seeds_apart;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!is_seed(i)) continue;
      seeds.push_back(i);
      if (lies_apart(i)) seeds_apart.push_back(i);
    }
    RoutingReach reach;
    const std::vector<bool> reached = localize::reached(dependants_, seeds);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (reached[i]) reach.nodes.push_back(i);
    }
    reach.apart = spread(seeds_apart, dependants_, [this](std::size_t i) { return lies_apart(i); });
    return reach;
  }

 private:
  template <typename May>
  static std::vector<bool> spread(const std::vector<std::size_t>& from,
                                  const std::vector<std::vector<std::size_t>>& to, May may) {
    std::vector<bool> seen(to.size(), false);
    std::vector<std::size_t> pending = from;
    for (const std::size_t i : from) seen[i] = true;
    while (!pending.empty()) {
      const std::size_t node = pending.back();
      pending.pop_back();
      for (const std::size_t next : to[node]) {
        if (seen[next] || !may(next)) continue;
        seen[next] = true;
        pending.push_back(next);
      }
    }
    return seen;
  }

  bool is_forward(const TensorKey& key) const {
    return (key.kind == Kind::kInput || key.kind == Kind::kOutput) && key.step == router_.step &&
           key.microbatch == router_.microbatch;
  }

  bool is_seed(std::size_t i) const {
    const TensorKey& key = nodes_[i].key;
    if (!is_forward(key)) return false;
    const std::string_view module = trace::module_of_value(key.name);
    if (module == module_) return key.kind == Kind::kOutput && key.call == router_.call;
    // The input stands for a router whose outputs were not recorded.
    if (module == beside_ && router_.kind == Kind::kInput) return key.kind == Kind::kOutput;
    return module != beside_ && is_within(module, beside_) && !is_within(module, module_) &&
           !before_[i];
  }

  bool lies_apart(std::size_t i) const {
    const TensorKey& key = nodes_[i].key;
    const std::string_view module = trace::module_of_value(key.name);
    if (!is_forward(key)) return false;
    if (module == module_) return true;
    if (!is_within(module, layer_)) return false;
    // The layer's own name may say attention; the modules inside it decide.
    if (module == layer_) return true;
    const auto found = classes_.find(module);
    return !says_attention(module.substr(layer_.size())) &&
           (found == classes_.end() || !says_attention(found->second));
  }

  const std::vector<localize::FlowNode>& nodes_;
  const localize::Dataflow& flow_;
  const TensorKey& router_;
  std::string_view module_;
  std::string_view beside_;
  std::string_view layer_;
  std::vector<std::vector<std::size_t>> dependants_;
  std::map<std::string, std::string, std::less<>> classes_;
  std::vector<bool> before_;  // what the router depends on
};

}  // namespace

RoutingReach reach_of(const std::vector<localize::FlowNode>& nodes, const localize::Dataflow& flow,
                      const std::vector<trace::Module>& modules, std::size_t router) {
  return Reach(nodes, flow, modules, router).find();
}

}  // namespace ttrace::routing
