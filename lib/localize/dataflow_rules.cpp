#include "localize/dataflow_rules.h"

#include <algorithm>

#include "localize/dataflow_index.h"

namespace ttrace::localize {
namespace {

using trace::Kind;
using trace::Module;
using trace::TensorKey;

// Collects what one node depends on; one member function per kind of tensor.
class Collector {
 public:
  Collector(const NodeIndex& index, const ModuleGraph& graph, const FlowNode& node)
      : index_(index), graph_(graph), key_(node.key), replayed_(node.replayed) {}

  std::vector<std::size_t> collect() {
    add_all();
    return std::move(found_);
  }

 private:
  void add_all() {
    const std::string_view module = trace::module_of_value(key_.name);
    switch (key_.kind) {
      case Kind::kParam:
        return previous_step_parameter();
      case Kind::kInput:
        return input();
      case Kind::kOutput:
        return output();
      case Kind::kLoss:
        return loss();
      case Kind::kGradOutput:
        return grad_output();
      case Kind::kGradInput:
        add_values(Kind::kGradOutput, module);
        return add_values(Kind::kInput, module);
      case Kind::kParamGrad:
        return add_gradient_sources(key_.name);
      case Kind::kMainGrad:
        add(Kind::kParamGrad, key_.name);
        if (found_.empty()) add_gradient_sources(key_.name);
        return;
      case Kind::kGradNorm:
        if (!replayed_) add_kind(Kind::kMainGrad);
        return;
      case Kind::kOptimizerState:
        return optimizer_state();
      case Kind::kParamAfterStep:
        return updated_parameter();
      case Kind::kBuffer:
        return buffer();
      case Kind::kBufferAfterStep:
        return buffer_after_step();
      case Kind::kScalar:  // see last_before_scalars
      case Kind::kIndex:
        return;
    }
  }

  void append(const std::vector<std::size_t>& nodes) {
    found_.insert(found_.end(), nodes.begin(), nodes.end());
  }
  void add(Kind kind, std::string_view name) { append(index_.find(key_, kind, name)); }
  void add_values(Kind kind, std::string_view module) {
    append(index_.find_values(key_, kind, module));
  }
  void add_kind(Kind kind) { append(index_.find_kind(key_, kind)); }

  void previous_step_parameter() {
    if (key_.step == 0) return;
    append(index_.find_in_step(key_.step - 1, Kind::kParamAfterStep, key_.name));
  }

  void input() {
    const Module* module = graph_.find(trace::module_of_value(key_.name));
    if (module == nullptr) return;
    for (const std::string& value : module->inputs) add(Kind::kOutput, value);
    // Token numbers, masks and positions come from the model's own inputs. The data flow is made of
    // outputs and does not have these edges.
    if (module->name != trace::kWholeModel) add_values(Kind::kInput, trace::kWholeModel);
  }

  void output() {
    const std::string_view name = trace::module_of_value(key_.name);
    add_values(Kind::kInput, name);
    const Module* module = graph_.find(name);
    if (module == nullptr) return;
    for (const std::string& value : ModuleGraph::sources_of(*module)) add(Kind::kOutput, value);
    for (const std::string& param : module->params) add(Kind::kParam, param);
    append(index_.find_owned(key_.step, Kind::kBuffer, name));
  }

  // The step before left it so.
  void buffer() {
    if (key_.step == 0) return;
    append(index_.find_in_step(key_.step - 1, Kind::kBufferAfterStep, key_.name));
    if (found_.empty()) written_in(key_.step - 1);
  }

  void buffer_after_step() { written_in(key_.step); }

  // What a step makes of a buffer: the module that owns it writes to it, or, where it is a copy or
  // an average, it follows the parameter whose name stands at the end of its own.
  void written_in(std::uint64_t step) {
    TensorKey of_step = key_;
    of_step.step = step;
    append(index_.find_in_step(step, Kind::kBuffer, key_.name));
    const std::string_view owner = trace::owner_of(key_.name);
    append(index_.find_values(of_step, Kind::kInput, owner));
    append(index_.find_values(of_step, Kind::kOutput, owner));
    std::string_view rest = key_.name;
    for (std::size_t dot = rest.find('.'); dot != rest.npos; dot = rest.find('.')) {
      rest.remove_prefix(dot + 1);
      const auto updated = index_.find_in_step(step, Kind::kParamAfterStep, std::string(rest));
      if (updated.empty()) continue;
      append(updated);
      // A replay takes the run's own gradient for right.
      append(index_.find_in_step(step, Kind::kMainGrad, std::string(rest)));
      return;
    }
  }

  void loss() {
    if (const Module* module = graph_.find(key_.name)) {
      for (const std::string& value : ModuleGraph::sources_of(*module)) add(Kind::kOutput, value);
    } else {
      add_values(Kind::kOutput, trace::kWholeModel);
    }
  }

  // Adds what comes back to this value through `module`.
  void add_backward_through(const Module& module) {
    add(Kind::kLoss, module.name);
    add_values(Kind::kGradOutput, module.name);
  }

  // Whether no module takes the value but the model itself, which returns it, and losses.
  bool is_result_of_model() const {
    const auto& returners = graph_.returners(key_.name);
    return graph_.consumers(key_.name).empty() &&
           std::all_of(returners.begin(), returners.end(), [this](const Module* module) {
             return module->name == trace::kWholeModel ||
                    !index_.find(key_, Kind::kLoss, module->name).empty();
           });
  }

  void grad_output() {
    for (const Module* consumer : graph_.consumers(key_.name)) {
      add_backward_through(*consumer);
      add_values(Kind::kGradInput, consumer->name);
      add_values(Kind::kInput, consumer->name);
      add_values(Kind::kOutput, consumer->name);
      for (const std::string& param : consumer->params) add(Kind::kParam, param);
    }
    for (const Module* returner : graph_.returners(key_.name)) add_backward_through(*returner);
    if (found_.empty()) add_kind(Kind::kLoss);
    // What the job computes from this value outside of all modules, such as a loss, has a
    // derivative that depends on the value.
    if (is_result_of_model()) {
      add_values(Kind::kOutput, trace::module_of_value(key_.name));
    }
  }

  void add_gradient_sources(std::string_view param) {
    for (const Module* user : graph_.users(param)) {
      add_values(Kind::kInput, user->name);
      add_values(Kind::kGradOutput, user->name);
    }
  }

  // A replay starts from the candidate's own gradient, right or wrong, so what it finds does not
  // follow from the gradient. The same holds for the gradient norm.
  void updated_parameter() {
    if (!replayed_) add(Kind::kMainGrad, key_.name);
    add(Kind::kParam, key_.name);
    add_kind(Kind::kGradNorm);
    append(index_.find_owned(key_.step, Kind::kOptimizerState, key_.name));
  }

  // The state that a step begins with was made by the step before. "layers.0.fc1.weight.exp_avg"
  // belongs to the parameter it begins with.
  void optimizer_state() {
    if (key_.step == 0) return;
    TensorKey step_before = key_;
    const std::uint64_t before = --step_before.step;
    append(index_.find_in_step(before, Kind::kOptimizerState, key_.name));
    append(index_.find_kind(step_before, Kind::kGradNorm));
    for (std::size_t dot = key_.name.rfind('.'); dot != std::string::npos && dot > 0;
         dot = key_.name.rfind('.', dot - 1)) {
      const std::string parameter = key_.name.substr(0, dot);
      const auto gradients = index_.find_in_step(before, Kind::kMainGrad, parameter);
      if (gradients.empty()) continue;
      append(gradients);
      // The settings that made a wrong update made the state, too, as a decay that SGD adds.
      return append(index_.find_in_step(before, Kind::kParamAfterStep, parameter));
    }
  }

  const NodeIndex& index_;
  const ModuleGraph& graph_;
  const TensorKey& key_;
  bool replayed_;
  std::vector<std::size_t> found_;
};

}  // namespace

std::vector<std::size_t> dependencies(const NodeIndex& index, const ModuleGraph& graph,
                                      std::size_t i) {
  return Collector(index, graph, index.nodes()[i]).collect();
}

}  // namespace ttrace::localize
