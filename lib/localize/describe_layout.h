// Describes layouts, and the ranks and shards that hold a difference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "trace/source.h"

namespace ttrace::localize {

// "2 × [64] -> [64], replicas over tp"
std::string describe_merging(const trace::Source& candidate, const trace::TensorEntry& entry);

// The same for what a comparison looks at: of a tensor made of several, which and how.
std::string describe_view(const trace::Source& candidate, const layout::View& view);

// Both shapes, types and placements of a pair that cannot be compared.
std::string describe_shapes(const trace::Source& reference, const layout::View& of_reference,
                            const trace::Source& candidate, const layout::View& of_candidate);

// Where in the tensor, and on which ranks, the difference sits: each shard's share of the squared
// error.
std::string describe_where(const measure::TensorRef& candidate,
                           const comparison::TensorComparison& result);

// Ranks that hold a part with more than its share of the error; all holders in a replica conflict.
std::vector<std::uint64_t> ranks_with_error(const comparison::TensorComparison& result);

}  // namespace ttrace::localize
