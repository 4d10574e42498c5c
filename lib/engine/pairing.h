// The union of two traces' tensors, each with what there is of it on either side.
#pragma once

#include <vector>

#include "compare/measure.h"
#include "trace/source.h"

namespace ttrace::engine {

struct Pair {
  trace::TensorKey key;
  const trace::TensorEntry* reference = nullptr;  // or null
  const trace::TensorEntry* candidate = nullptr;  // or null
  std::vector<compare::TensorRef> noise;          // of the runs that have the tensor
};

// Sorted by key. A further copy of a tied parameter that the reference does not have is paired with
// the reference's copy 0. Throws an input error if a noise run has another shape or dtype for a
// tensor of the reference: it is then not a run of this reference.
std::vector<Pair> pair_traces(const trace::Source& reference, const trace::Source& candidate,
                              const std::vector<const trace::Source*>& noise);

// Why the pair cannot be held against each other ("reference [4, 8] f32, candidate [4, 16] f32"),
// or empty. Both sides must be present.
std::string incomparable_reason(const Pair& pair);

}  // namespace ttrace::engine
