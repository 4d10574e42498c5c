// What a parameter of one dimension gets as its gradient: a term from every row, added up. Made
// again from the rows, exactly and as an accumulator of the gradient's own precision would have it.
#pragma once

#include <optional>
#include <vector>

#include "measure/backend.h"
#include "measure/tensor_reader.h"

namespace ttrace::measure {

// The sums over all rows of g (a bias), of g·x̂ with x̂ the row of `input` normalised as by
// LayerNorm, (x - mean)/√(variance + ε), and as by RMSNorm, x/√(mean square + ε), each with every ε
// that is in use; in this order. `gradient` and `input` have one shape; its last dimension is a
// row. `precision` is the accumulator's. `input` may be null: the first alone. Source: the
// definitions of torch.nn.LayerNorm and torch.nn.RMSNorm. Throws an input error if a shard cannot
// be read.
std::vector<RowSums> sum_rows(const Backend& backend, const TensorRef& gradient,
                              const TensorRef* input, tensor::DType precision);

// Of the sums that may have made `recorded`, what rounding its accumulator added: recorded - exact
// of the nearest, if that is at most twice what rounding after every term adds; else nothing, for
// then it was made in another way.
std::optional<std::vector<double>> accumulated_rounding(const std::vector<double>& recorded,
                                                        const std::vector<RowSums>& sums);

}  // namespace ttrace::measure
