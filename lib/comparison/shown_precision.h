// Limits how coarse a precision the candidate may claim. A manifest may say that a tensor was
// computed in a coarser type than the stored one, which widens its tolerance. The claim counts only
// up to the coarsest type that the run itself shows: one that a tensor is stored in, or that
// `run.precision` names.
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

// Whether `run.precision` names an FP8 type: "fp8" or "bf16, float8_e4m3fn", but not "no fp8".
bool names_fp8(const std::string& precision);

// Returns the coarsest floating-point type that a tensor of the run is stored in or that
// `run.precision` names, a list of names with commas ("bf16", "float16", "bf16, fp8"); nothing if
// there is neither.
std::optional<tensor::DType> coarsest_shown(const trace::Manifest& manifest);

// The same of a run that is trusted: it also counts what its tensors say they were computed in, and
// what a GPU rounds factors of products to.
std::optional<tensor::DType> coarsest_computed(const trace::Manifest& manifest);

// Limits `computed_in` of the candidate's side of all pairs to coarsest_shown(), except where the
// reference claims as coarse a type. Returns one warning if that changed a pair, otherwise none.
std::vector<std::string> limit_computed_in(const trace::Manifest& candidate,
                                           const std::string& path, std::vector<Pair>& pairs);

// Whether the tolerance is wider because of the candidate's `computed_in`: that type is coarser
// than both stored types and than the reference's `computed_in`. Always false for integers and
// replayed values, whose tolerance does not depend on it.
bool is_widened(const TensorComparison& result);

}  // namespace ttrace::comparison
