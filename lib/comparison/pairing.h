// Pairs the tensors of two traces: every tensor of their union once, with its view on either side.
#pragma once

#include <string>
#include <vector>

#include "comparison/tensor_comparison.h"
#include "layout/view.h"
#include "measure/measure.h"
#include "trace/source.h"

namespace ttrace::comparison {

// Returns all tensors but the index tensors that a placement names: those are layout, and differ
// between equal runs.
std::vector<layout::ViewPtr> tensors_of(const trace::Manifest& manifest);

// The tensors of a trace that take part, each key once.
struct Side {
  const trace::Source* source = nullptr;
  std::vector<layout::ViewPtr> tensors;
};

// Returns the pairs sorted by key. Pairs a further copy of a tied parameter that the reference
// lacks with the reference's copy 0, and a tensor that stands for several micro-batches with the
// other side's tensors of those, merged. Throws an input error if a noise run has another shape or
// dtype for a tensor of the reference: it is no run of this reference.
std::vector<Pair> pair_traces(const Side& reference, const Side& candidate,
                              const std::vector<Side>& noise);

// Returns why the sides differ in shape or class of type ("reference [4, 8] f32, candidate [4, 16]
// f32"), or empty. Both sides must be present.
std::string incomparable_reason(const Pair& pair);

// Returns how the micro-batches differ that the sides stand for, or empty. Both must be present.
std::string microbatches_apart(const Pair& pair);

}  // namespace ttrace::comparison
