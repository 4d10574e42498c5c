// Dimensions whose rows a rank holds in an order that the data decides (tokens sent to experts,
// packed sequences).
#pragma once

#include <cstdint>
#include <vector>

#include "layout/ranges.h"
#include "trace/key.h"

namespace ttrace::layout {

// Start of a range of rows that are padding: held by the rank, part of no tensor.
inline constexpr std::uint64_t kPadding = ~std::uint64_t{0};

// Key of the index tensor `name` that says which rows of the tensor `key` a rank holds.
trace::TensorKey index_key(const trace::TensorKey& key, const std::string& name);

// The rows of a dimension of `extent` that `numbers` names, in their order; negative ones are
// padding. Throws an input error for a number beyond the dimension.
Ranges rows_from_numbers(const std::vector<std::int64_t>& numbers, std::uint64_t extent);

}  // namespace ttrace::layout
