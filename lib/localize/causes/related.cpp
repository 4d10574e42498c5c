#include "localize/causes/related.h"

namespace ttrace::localize {

Related::Related(const std::vector<comparison::TensorComparison>& results,
                 const trace::Source& reference, const trace::Source& candidate)
    : reference_(reference), candidate_(candidate) {
  for (const comparison::TensorComparison& record : results) {
    kinds_[record.key.kind].push_back(&record);
    shapes_[{record.key.kind, record.shape}].push_back(&record);
  }
}

const Related::Records& Related::of_kind(trace::Kind kind) const {
  static const Records kNone;
  const auto found = kinds_.find(kind);
  return found == kinds_.end() ? kNone : found->second;
}

const Related::Records& Related::alike(trace::Kind kind, const tensor::Shape& shape) const {
  static const Records kNone;
  const auto found = shapes_.find({kind, shape});
  return found == shapes_.end() ? kNone : found->second;
}

measure::TensorRef Related::reference(const comparison::TensorComparison& record) const {
  if (record.reference == nullptr) return {};
  return {&reference_, record.reference};
}

measure::TensorRef Related::candidate(const comparison::TensorComparison& record) const {
  if (record.candidate == nullptr) return {};
  return {&candidate_, record.candidate};
}

}  // namespace ttrace::localize
