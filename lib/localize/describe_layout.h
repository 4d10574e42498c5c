// How a tensor lies on the ranks, and which of them have an error, for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comparison/tensor_comparison.h"
#include "measure/measure.h"
#include "trace/source.h"

namespace ttrace::localize {

// "2 × [64] -> [64], replicas over tp"
std::string describe_merging(const trace::Source& candidate, const trace::TensorEntry& entry);

// The same for a view. For a tensor made of several, it also says of which ones and how.
std::string describe_view(const trace::Source& candidate, const layout::View& view);

// Both shapes, types and placements of a pair that cannot be compared.
std::string describe_shapes(const trace::Source& reference, const layout::View& of_reference,
                            const trace::Source& candidate, const layout::View& of_candidate);

// Each shard's share of the squared error: where in the tensor, and on which ranks, it differs.
std::string describe_where(const measure::TensorRef& candidate,
                           const comparison::TensorComparison& result);

// Returns the ranks of shards with more than their share of the error, or with much more of it than
// is allowed; in a replica conflict all ranks that have the tensor.
std::vector<std::uint64_t> ranks_with_error(const comparison::TensorComparison& result);

}  // namespace ttrace::localize
