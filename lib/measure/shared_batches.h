// Backends whose batches end in a launch and a wait: small pairs should share one.
#pragma once

#include <cstddef>

#include "measure/backend.h"

namespace ttrace::measure {

// What a backend may have beside its batches.
class SharedBatches {
 public:
  virtual ~SharedBatches() = default;

  // So many pairs are worth one batch.
  virtual std::size_t pairs_per_batch() const = 0;
};

// 1 for a backend that computes a request when it is added.
inline std::size_t pairs_per_batch(const Backend& backend) {
  const auto* const shared = dynamic_cast<const SharedBatches*>(&backend);
  return shared == nullptr ? 1 : shared->pairs_per_batch();
}

}  // namespace ttrace::measure
