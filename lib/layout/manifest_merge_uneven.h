// Shards of uneven extents, of which a rank knows its own alone: it counts the others' as large.
// The rules are in schemas/trace-v2.md, "Merging".
#pragma once

#include <cstdint>
#include <map>

#include "trace/manifest.h"

namespace ttrace::layout {

// The shape of the whole that each recording rank says.
using ShapesByRank = std::map<std::uint64_t, tensor::Shape>;

// Sets `entry`'s shape to that of the whole, and the `sizes` of its shards, where the ranks differ
// in the extents of dimensions that one axis each cuts by a plain shard. Returns false, with
// `entry` as it was, where they differ in more, where ranks at one coordinate of such an axis have
// shards of two extents, and where a coordinate has no rank (of an index it is empty).
bool set_whole_extents(trace::TensorEntry& entry, const trace::Mesh& mesh,
                       const ShapesByRank& shapes);

// For a tensor placed by `rows` with labels: gives `shapes` the extent that its index has as a
// whole, if its ranks say of both the same.
void take_extent_of_index(const trace::TensorEntry& entry, const trace::Rows& rows,
                          const trace::Mesh& mesh, const trace::TensorEntry& index,
                          const ShapesByRank& of_index, ShapesByRank& shapes);

}  // namespace ttrace::layout
