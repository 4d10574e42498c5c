#include "audit/recorded_tensors.h"

namespace ttrace::audit {

RecordedTensors::RecordedTensors(const trace::Manifest& manifest) {
  for (const trace::TensorEntry& entry : manifest.tensors) {
    if (entry.microbatches) continue;
    entries_.emplace(entry.key, &entry);
    if (entry.key.microbatch) microbatches_[entry.key.step].insert(*entry.key.microbatch);
  }
}

const trace::TensorEntry* RecordedTensors::find(const trace::TensorKey& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : found->second;
}

const trace::TensorEntry* RecordedTensors::find(const specification::Specification& specification,
                                                std::size_t tensor,
                                                const trace::TensorKey& like) const {
  trace::TensorKey key = specification.key_of(tensor);
  key.step = like.step;
  if (key.microbatch) return find(key);
  key.microbatch = like.microbatch;
  const trace::TensorEntry* entry = find(key);
  if (entry != nullptr || !like.microbatch) return entry;
  const auto several = microbatches_.find(key.step);
  if (key.kind == trace::Kind::kScalar && several != microbatches_.end() &&
      several->second.size() > 1) {
    return nullptr;
  }
  key.microbatch.reset();
  return find(key);
}

}  // namespace ttrace::audit
