// Adds up the gradient of a parameter of one dimension again, from the rows that contribute to it:
// exactly, and as an accumulator of the gradient's own precision would.
#pragma once

#include <optional>
#include <vector>

#include "measure/backend.h"
#include "measure/tensor_reader.h"

namespace ttrace::measure {

// Returns the sums over all rows of g (a bias), then of g·x̂ with x̂ the row of `input` normalised as
// by LayerNorm, (x - mean)/√(variance + ε), for every ε that is in use, then as by RMSNorm,
// x/√(mean square + ε). `gradient` and `input` have one shape, whose last dimension is a row.
// `precision` is the accumulator's. Without `input` (null): the first sum alone. Source: the
// definitions of torch.nn.LayerNorm and torch.nn.RMSNorm. Throws an input error if a shard cannot
// be read.
std::vector<RowSums> sum_rows(const Backend& backend, const TensorRef& gradient,
                              const TensorRef* input, tensor::DType precision);

// Returns what rounding in the accumulator added to `recorded`: recorded - exact of the nearest
// sum. Nothing if that is more than twice what rounding after every term adds: `recorded` was then
// made in another way.
std::optional<std::vector<double>> accumulated_rounding(const std::vector<double>& recorded,
                                                        const std::vector<RowSums>& sums);

}  // namespace ttrace::measure
