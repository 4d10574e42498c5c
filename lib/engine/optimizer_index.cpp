#include "engine/optimizer_index.h"

namespace ttrace::engine {

OptimizerIndex::OptimizerIndex(const trace::Manifest& manifest) {
  for (const trace::OptimizerGroup& group : manifest.optimizer) {
    steps_.insert(group.step);
    for (const std::string& parameter : group.params) {
      const auto [found, fresh] = groups_.emplace(std::pair(group.step, parameter), Found{&group});
      if (!fresh) found->second.twice = true;
    }
  }
  for (const trace::TensorEntry& entry : manifest.tensors) {
    switch (entry.key.kind) {
      case trace::Kind::kParam:
      case trace::Kind::kMainGrad:
      case trace::Kind::kOptimizerState:
        tensors_.emplace(entry.key, &entry);
        break;
      default:
        break;
    }
  }
}

OptimizerIndex::Found OptimizerIndex::find(std::uint64_t step, const std::string& parameter) const {
  const auto found = groups_.find({step, parameter});
  return found == groups_.end() ? Found{} : found->second;
}

const trace::TensorEntry* OptimizerIndex::tensor(const trace::TensorKey& key) const {
  const auto found = tensors_.find(key);
  return found == tensors_.end() ? nullptr : found->second;
}

const trace::TensorEntry* OptimizerIndex::state(const trace::TensorKey& parameter,
                                                std::string_view state) const {
  trace::TensorKey key = parameter;
  key.kind = trace::Kind::kOptimizerState;
  key.name.append(".").append(state);
  return tensor(key);
}

}  // namespace ttrace::engine
