// Where in a tensor an error sits, and which values differ, for people.
#pragma once

#include <string>

#include "comparison/tensor_comparison.h"
#include "judge/slices.h"
#include "measure/measure.h"

namespace ttrace::localize {

// "rows 4 to 7 of 64 (dimension 0): error 0.3 of its norm, allowed 0.01; 2 more parts", or nothing.
std::string describe_slices(const judge::SliceJudgement& slices, const tensor::Shape& shape);

// "98 % of the squared error in rows 4 to 7 of 64", for every dimension of which a quarter of the
// indices or less hold 90 % of it; empty if none does, for dimensions of fewer than four indices,
// and for tensors too large to be read once more for this (2^27 elements). Throws an input error if
// reading fails.
std::string rows_with_error(const measure::TensorRef& reference,
                            const measure::TensorRef& candidate);

// "reference 7.97502, candidate 7.9753"; where the candidate's replicas differ, the value of each
// class of ranks: "reference 1, candidate 1 on rank 0, 0.96 on ranks {1, 2}". Empty for more than
// one element, and where a value cannot be read. `result` is the pair's and was measured.
std::string describe_values(const measure::TensorRef& reference,
                            const measure::TensorRef& candidate,
                            const comparison::TensorComparison& result);

}  // namespace ttrace::localize
