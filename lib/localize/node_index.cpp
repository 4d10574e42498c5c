#include "localize/node_index.h"

#include "localize/phase.h"

namespace ttrace::localize {

NodeIndex::NodeIndex(const std::vector<Node>& nodes) : nodes_(&nodes) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const trace::TensorKey& key = nodes[i].key;
    values_[{key.step, key.kind, std::string(trace::module_of_value(key.name)), key.name}]
        .push_back(i);
    kinds_[{key.step, key.kind}].push_back(i);
  }
}

bool NodeIndex::same_microbatch(const trace::TensorKey& like, std::size_t node) const {
  const auto& microbatch = (*nodes_)[node].key.microbatch;
  return !like.microbatch || !microbatch || *like.microbatch == *microbatch;
}

std::vector<std::size_t> NodeIndex::find(const trace::TensorKey& like, trace::Kind kind,
                                         std::string_view name) const {
  std::vector<std::size_t> found;
  for (const std::size_t node : find_in_step(like.step, kind, name)) {
    if (same_microbatch(like, node)) found.push_back(node);
  }
  return found;
}

std::vector<std::size_t> NodeIndex::find_values(const trace::TensorKey& like, trace::Kind kind,
                                                std::string_view module) const {
  std::vector<std::size_t> found;
  const std::string name(module);
  for (auto it = values_.lower_bound(std::tuple(like.step, kind, name, std::string()));
       it != values_.end() && std::get<0>(it->first) == like.step &&
       std::get<1>(it->first) == kind && std::get<2>(it->first) == name;
       ++it) {
    for (const std::size_t node : it->second) {
      if (same_microbatch(like, node)) found.push_back(node);
    }
  }
  return found;
}

std::vector<std::size_t> NodeIndex::find_kind(const trace::TensorKey& like,
                                              trace::Kind kind) const {
  std::vector<std::size_t> found;
  const auto nodes = kinds_.find({like.step, kind});
  if (nodes == kinds_.end()) return found;
  for (const std::size_t node : nodes->second) {
    if (same_microbatch(like, node)) found.push_back(node);
  }
  return found;
}

std::vector<std::size_t> NodeIndex::find_in_step(std::uint64_t step, trace::Kind kind,
                                                 std::string_view name) const {
  const auto found = values_.find(
      std::tuple(step, kind, std::string(trace::module_of_value(name)), std::string(name)));
  return found == values_.end() ? std::vector<std::size_t>{} : found->second;
}

std::vector<std::size_t> NodeIndex::find_states(const trace::TensorKey& like,
                                                std::string_view parameter) const {
  return find_parts(like.step, trace::Kind::kOptimizerState, parameter);
}

std::vector<std::size_t> NodeIndex::find_parts(std::uint64_t step, trace::Kind kind,
                                               std::string_view module) const {
  std::vector<std::size_t> found;
  const std::string start = module == "(model)" ? "" : std::string(module) + ".";
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
