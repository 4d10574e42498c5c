// Pairs the tensors of two traces: every tensor of their union once, with what each side has of it.
#pragma once

#include <string>
#include <vector>

#include "comparison/tensor_comparison.h"
#include "layout/view.h"
#include "measure/measure.h"
#include "trace/source.h"

namespace ttrace::comparison {

// All of them but the index tensors that a placement names: those are layout, and differ between
// runs that are equal.
std::vector<layout::ViewPtr> tensors_of(const trace::Manifest& manifest);

// The tensors of a trace that take part, each key once.
struct Side {
  const trace::Source* source = nullptr;
  std::vector<layout::ViewPtr> tensors;
};

// Sorted by key. A further copy of a tied parameter that the reference does not have is paired with
// the reference's copy 0. A tensor that stands for several micro-batches is paired with the other
// side's tensors of those, put together. Where the other trace names a module's values by position
// (version 1), they meet the reference's in order, under its names. Throws an input error if a
// noise run has another shape or dtype for a tensor of the reference: it is then not a run of this
// reference.
std::vector<Pair> pair_traces(const Side& reference, const Side& candidate,
                              const std::vector<Side>& noise);

// Why the pair is not of one shape and class of type ("reference [4, 8] f32, candidate [4, 16]
// f32"), or empty. Both sides must be present.
std::string incomparable_reason(const Pair& pair);

// Why one side stands for other micro-batches than the other, or empty. Both must be present.
std::string microbatches_apart(const Pair& pair);

}  // namespace ttrace::comparison
