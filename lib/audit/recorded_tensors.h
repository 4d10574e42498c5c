// The tensors that a run holds, under the keys that a specification gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "specification/specification.h"
#include "trace/key.h"
#include "trace/manifest.h"

namespace ttrace::audit {

// Valid as long as the manifest. Tensors that stand for several micro-batches are left out, since a
// specification is of one.
class RecordedTensors {
 public:
  explicit RecordedTensors(const trace::Manifest& manifest);

  // Adds what follows from recorded tensors alone. The entry must outlive this.
  void add(const trace::TensorEntry& entry) { entries_.emplace(entry.key, &entry); }

  // The entry of that key, or null.
  const trace::TensorEntry* find(const trace::TensorKey& key) const;
  // The entry of a tensor of the specification in the step and micro-batch of `like`, or null. A
  // tensor without a micro-batch, such as a parameter, is that of the step. A number that the run
  // recorded for a whole step of several micro-batches belongs to none of them.
  const trace::TensorEntry* find(const specification::Specification& specification,
                                 std::size_t tensor, const trace::TensorKey& like) const;

 private:
  std::map<trace::TensorKey, const trace::TensorEntry*> entries_;
  std::map<std::uint64_t, std::set<std::uint64_t>> microbatches_;  // of each step
};

}  // namespace ttrace::audit
