// How large the terms are that the ranks hold of a partial tensor: what bounds the rounding of
// their sum, also where they cancel.
#pragma once

#include "trace/manifest.h"
#include "trace/source.h"

namespace ttrace::measure {

// Returns Σ x² over the finite elements of all terms of a floating-point tensor, each times the
// factor with which it enters the sum, replicas once. Without partial axes it is ‖tensor‖²; terms
// that cancel make it larger. Throws an input error if a shard cannot be read.
double squared_terms(const trace::Source& source, const trace::TensorEntry& entry);

}  // namespace ttrace::measure
