#include "localize/dataflow_index.h"

#include <algorithm>
#include <iterator>

namespace ttrace::localize {

ModuleGraph::ModuleGraph(const std::vector<trace::Module>& modules) {
  for (const trace::Module& module : modules) {
    by_name_.emplace(module.name, &module);
    for (const std::string& value : module.inputs) consumers_[value].push_back(&module);
    for (const std::string& value : sources_of(module)) {
      const bool is_input =
          std::find(module.inputs.begin(), module.inputs.end(), value) != module.inputs.end();
      if (!is_input) returners_[value].push_back(&module);
    }
    for (const std::string& param : module.params) users_[param].push_back(&module);
  }
}

const trace::Module* ModuleGraph::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const std::vector<std::string>& ModuleGraph::sources_of(const trace::Module& module) {
  return module.computed_from ? *module.computed_from : module.inputs;
}

const ModuleGraph::Modules& ModuleGraph::in(const Lists& lists, std::string_view name) {
  static const Modules none;
  const auto found = lists.find(name);
  return found == lists.end() ? none : found->second;
}

NodeIndex::NodeIndex(const std::vector<Node>& nodes) : nodes_(&nodes) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const trace::TensorKey& key = nodes[i].key;
    values_[{key.step, key.kind, std::string(trace::module_of_value(key.name)), key.name}]
        .push_back(i);
    kinds_[{key.step, key.kind}].push_back(i);
  }
}

std::vector<std::size_t> NodeIndex::in_microbatch(const trace::TensorKey& like,
                                                  const std::vector<std::size_t>& nodes) const {
  std::vector<std::size_t> found;
  std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(found), [&](std::size_t node) {
    const auto& microbatch = (*nodes_)[node].key.microbatch;
    return !like.microbatch || !microbatch || *like.microbatch == *microbatch;
  });
  return found;
}

std::vector<std::size_t> NodeIndex::find(const trace::TensorKey& like, trace::Kind kind,
                                         std::string_view name) const {
  return in_microbatch(like, find_in_step(like.step, kind, name));
}

std::vector<std::size_t> NodeIndex::find_values(const trace::TensorKey& like, trace::Kind kind,
                                                std::string_view module) const {
  std::vector<std::size_t> found;
  const std::string name(module);
  for (auto it = values_.lower_bound(std::tuple(like.step, kind, name, std::string()));
       it != values_.end() && std::get<0>(it->first) == like.step &&
       std::get<1>(it->first) == kind && std::get<2>(it->first) == name;
       ++it) {
    found.insert(found.end(), it->second.begin(), it->second.end());
  }
  return in_microbatch(like, found);
}

std::vector<std::size_t> NodeIndex::find_kind(const trace::TensorKey& like,
                                              trace::Kind kind) const {
  const auto nodes = kinds_.find({like.step, kind});
  return nodes == kinds_.end() ? std::vector<std::size_t>{} : in_microbatch(like, nodes->second);
}

std::vector<std::size_t> NodeIndex::find_in_step(std::uint64_t step, trace::Kind kind,
                                                 std::string_view name) const {
  const auto found = values_.find(
      std::tuple(step, kind, std::string(trace::module_of_value(name)), std::string(name)));
  return found == values_.end() ? std::vector<std::size_t>{} : found->second;
}

std::vector<std::size_t> NodeIndex::find_owned(std::uint64_t step, trace::Kind kind,
                                               std::string_view owner) const {
  std::vector<std::size_t> found;
  const std::string start = owner == "(model)" ? "" : std::string(owner) + ".";
  for (auto it = values_.lower_bound(std::tuple(step, kind, start, std::string()));
       it != values_.end() && std::get<0>(it->first) == step && std::get<1>(it->first) == kind &&
       std::get<2>(it->first).starts_with(start);
       ++it) {
    // Another owner's name may begin with this one's.
    if (std::get<3>(it->first).find('.', start.size()) != std::string::npos) continue;
    found.insert(found.end(), it->second.begin(), it->second.end());
  }
  return found;
}

}  // namespace ttrace::localize
