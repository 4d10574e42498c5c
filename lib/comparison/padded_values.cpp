#include "comparison/padded_values.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "tensor/dtype.h"

namespace ttrace::comparison {
namespace {

using trace::Kind;
using trace::Module;

bool has_in_last(const Pair& pair, const Excess& own, const Excess& padding) {
  return own.is_like(padding) && own.dim + 1 == pair.reference->shape.size();
}

// The modules of a comparison by what they take, and what was recorded of their outputs.
class PaddingFlow {
 public:
  PaddingFlow(const std::vector<std::string>& parameters, const Excess& padding,
              const std::vector<Module>& modules, const std::vector<Pair>& pairs)
      : parameters_(parameters.begin(), parameters.end()) {
    for (const Pair& pair : pairs) {
      const bool of_output = pair.key.kind == Kind::kOutput || pair.key.kind == Kind::kGradOutput;
      if (!of_output || pair.reference == nullptr || pair.candidate == nullptr) continue;
      Recorded& recorded = recorded_[trace::module_of_value(pair.key.name)];
      const auto own = excess_of(pair);
      recorded.padded = recorded.padded || (own && has_in_last(pair, *own, padding));
      const tensor::Shape& shape =
          padding.of_candidate ? pair.candidate->shape : pair.reference->shape;
      recorded.as_long = recorded.as_long || (!shape.empty() && shape.back() == padding.longer);
    }
    for (const Module& module : modules) {
      for (const std::string& value : module.inputs) {
        takers_[trace::module_of_value(value)].push_back(&module);
      }
      if (!module.computed_from) continue;
      for (const std::string& value : *module.computed_from) {
        returners_[trace::module_of_value(value)].push_back(&module);
      }
    }
  }

  using Modules = std::vector<const Module*>;
  const Modules& takers(std::string_view module) const { return in(takers_, module); }
  const Modules& returners(std::string_view module) const { return in(returners_, module); }

  // Returns the first padded parameter that the module uses, or null.
  const std::string* padded_parameter(const Module& module) const {
    const auto found =
        std::find_if(module.params.begin(), module.params.end(),
                     [this](const std::string& name) { return parameters_.contains(name); });
    return found == module.params.end() ? nullptr : &*found;
  }

  // Whether the outputs have padding. Those that were not recorded may, if no other parameters are
  // applied to them: these would have to be as long.
  bool has_padding(const Module& module) const {
    const auto found = recorded_.find(module.name);
    if (found != recorded_.end()) return found->second.padded;
    return !looks_up(module) && is_taken_as_it_is(module);
  }

  // Whether the outputs come to have the extents of the padding by a parameter of another module:
  // this one has none, nothing that they are computed from has as many columns, and no other
  // parameters are applied to them.
  bool is_origin(const Module& module) const {
    if (!module.params.empty()) return false;
    const auto recorded = recorded_.find(module.name);
    if (recorded == recorded_.end() || !recorded->second.padded) return false;
    const auto& sources = module.computed_from ? *module.computed_from : module.inputs;
    const auto is_as_long = [this](const std::string& value) {
      const auto source = recorded_.find(trace::module_of_value(value));
      return source != recorded_.end() && source->second.as_long;
    };
    return std::none_of(sources.begin(), sources.end(), is_as_long) && is_taken_as_it_is(module);
  }

 private:
  bool is_taken_as_it_is(const Module& module) const {
    const Modules& takers_of = takers(module.name);
    return std::all_of(takers_of.begin(), takers_of.end(), [this](const Module* taker) {
      return taker->params.empty() || padded_parameter(*taker) != nullptr;
    });
  }

  struct Recorded {
    bool padded = false;   // an output has padding in its last dimension
    bool as_long = false;  // the last dimension of one is that of the longer side
  };
  using Lists = std::map<std::string_view, Modules>;

  static const Modules& in(const Lists& lists, std::string_view module) {
    static const Modules none;
    const auto found = lists.find(module);
    return found == lists.end() ? none : found->second;
  }

  std::set<std::string, std::less<>> parameters_;  // padded
  std::map<std::string_view, Recorded> recorded_;  // by module; the texts are the pairs'
  Lists takers_;
  Lists returners_;
};

}  // namespace

bool looks_up(const Module& module) {
  return module.op == "embedding" || module.class_name.find("mbedding") != std::string::npos;
}

const std::string* PaddedValues::parameter_of(const Pair& pair, const Excess& own,
                                              const Excess& padding) const {
  if (!has_in_last(pair, own, padding)) return nullptr;
  const auto in = [](const Modules& modules, std::string_view module) {
    const auto found = modules.find(module);
    return found == modules.end() ? nullptr : &found->second;
  };
  switch (pair.key.kind) {
    case Kind::kOutput:
    case Kind::kGradOutput:
      return in(made_by, trace::module_of_value(pair.key.name));
    case Kind::kInput:
    case Kind::kGradInput:
      // Labels and weights of samples are taken with the logits, and have no columns.
      if (pair.reference->shape.size() < 2 || !tensor::is_floating(pair.reference->dtype)) {
        return nullptr;
      }
      return in(taken_by, trace::module_of_value(pair.key.name));
    case Kind::kBuffer:
    case Kind::kBufferAfterStep:
      return in(made_by, trace::owner_of(pair.key.name));
    default:
      return nullptr;
  }
}

PaddedValues padded_values(const std::vector<std::string>& parameters, const Excess& padding,
                           const std::vector<Module>& modules, const std::vector<Pair>& pairs) {
  PaddedValues values;
  if (modules.empty()) {
    for (const std::string& parameter : parameters) {
      values.made_by.emplace(trace::owner_of(parameter), parameter);
      values.made_by.emplace(trace::kWholeModel, parameter);
    }
    return values;
  }
  const PaddingFlow flow(parameters, padding, modules, pairs);
  std::vector<std::pair<const Module*, std::string>> pending;
  for (const Module& module : modules) {
    const std::string* parameter = flow.padded_parameter(module);
    if (parameter != nullptr && flow.has_padding(module)) pending.emplace_back(&module, *parameter);
  }
  if (pending.empty()) {
    for (const Module& module : modules) {
      if (flow.is_origin(module)) pending.emplace_back(&module, parameters.front());
    }
  }
  while (!pending.empty()) {
    const auto [module, parameter] = std::move(pending.back());
    pending.pop_back();
    if (!flow.has_padding(*module)) continue;
    if (!values.made_by.emplace(module->name, parameter).second) continue;
    for (const Module* taker : flow.takers(module->name)) {
      values.taken_by.emplace(taker->name, parameter);
      pending.emplace_back(taker, parameter);
    }
    for (const Module* next : flow.returners(module->name)) pending.emplace_back(next, parameter);
  }
  return values;
}

}  // namespace ttrace::comparison
