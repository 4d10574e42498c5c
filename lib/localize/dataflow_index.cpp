#include "localize/dataflow_index.h"

#include <algorithm>
#include <iterator>
#include <numeric>

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

NodeIndex::NodeIndex(const std::vector<FlowNode>& nodes) : nodes_(&nodes), sorted_(nodes.size()) {
  std::iota(sorted_.begin(), sorted_.end(), std::size_t{0});
  std::stable_sort(sorted_.begin(), sorted_.end(),
                   [this](std::size_t a, std::size_t b) { return place_of(a) < place_of(b); });
}

NodeIndex::Place NodeIndex::place_of(std::size_t node) const {
  const trace::TensorKey& key = (*nodes_)[node].key;
  return {key.step, key.kind, trace::module_of_value(key.name), key.name};
}

std::vector<std::size_t>::const_iterator NodeIndex::first_from(const Place& place) const {
  return std::lower_bound(
      sorted_.begin(), sorted_.end(), place,
      [this](std::size_t node, const Place& sought) { return place_of(node) < sought; });
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
  for (auto it = first_from({like.step, kind, module, ""}); it != sorted_.end(); ++it) {
    const auto [step_of, kind_of, module_of, name_of] = place_of(*it);
    if (step_of != like.step || kind_of != kind || module_of != module) break;
    found.push_back(*it);
  }
  return in_microbatch(like, found);
}

std::vector<std::size_t> NodeIndex::find_kind(const trace::TensorKey& like,
                                              trace::Kind kind) const {
  std::vector<std::size_t> found;
  for (auto it = first_from({like.step, kind, "", ""}); it != sorted_.end(); ++it) {
    const trace::TensorKey& key = (*nodes_)[*it].key;
    if (key.step != like.step || key.kind != kind) break;
    found.push_back(*it);
  }
  std::sort(found.begin(), found.end());
  return in_microbatch(like, found);
}

std::vector<std::size_t> NodeIndex::find_in_step(std::uint64_t step, trace::Kind kind,
                                                 std::string_view name) const {
  const Place place{step, kind, trace::module_of_value(name), name};
  std::vector<std::size_t> found;
  for (auto it = first_from(place); it != sorted_.end() && place_of(*it) == place; ++it) {
    found.push_back(*it);
  }
  return found;
}

std::vector<std::size_t> NodeIndex::find_owned(std::uint64_t step, trace::Kind kind,
                                               std::string_view owner) const {
  std::vector<std::size_t> found;
  const std::string start = owner == trace::kWholeModel ? "" : std::string(owner) + ".";
  for (auto it = first_from({step, kind, start, ""}); it != sorted_.end(); ++it) {
    const auto [step_of, kind_of, module_of, name_of] = place_of(*it);
    if (step_of != step || kind_of != kind || !module_of.starts_with(start)) break;
    // Another owner's name may begin with this one's.
    if (name_of.find('.', start.size()) == std::string_view::npos) found.push_back(*it);
  }
  return found;
}

}  // namespace ttrace::localize
