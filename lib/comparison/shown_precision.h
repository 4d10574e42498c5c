// How coarse the candidate's numbers may be, as far as its trace shows. A manifest may say of a
// tensor that it was computed in a coarser type than the stored one, which widens its tolerance; a
// run that shows no such type is not believed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comparison/tensor_comparison.h"
#include "tensor/dtype.h"
#include "trace/manifest.h"

namespace ttrace::comparison {

// Returns the coarsest floating-point type that a tensor of the run is stored in; nothing if none
// is.
std::optional<tensor::DType> coarsest_stored(const trace::Manifest& manifest);

// Returns the coarsest floating-point type that a tensor of the run is stored in or that
// `run.precision` names ("bf16", "float16", "fp8 hybrid"); nothing if there is neither.
std::optional<tensor::DType> coarsest_shown(const trace::Manifest& manifest);

// Limits `computed_in` of the candidate's side of all pairs to coarsest_shown(), where the
// reference does not say the same. Returns a warning if that changed any.
std::vector<std::string> limit_computed_in(const trace::Manifest& candidate,
                                           const std::string& path, std::vector<Pair>& pairs);

// Whether the tolerance is wider for what the candidate's manifest says the tensor was computed in:
// coarser than both stored types, and than what the reference says. Integers and replayed values
// have no such tolerance.
bool is_widened(const TensorComparison& result);

}  // namespace ttrace::comparison
