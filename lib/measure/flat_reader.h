// Boxes of an array of which a dataset holds a flattened range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/ranges.h"
#include "trace/source.h"

namespace ttrace::measure {

// The bits of `box` of an array of `shape`, of which `dataset` holds the elements `range` in
// row-major order; the box must lie within the range. `out`: dense, row-major, of the box's size.
// Returns the number of bytes read. Throws as Dataset::read.
std::uint64_t read_flat_box(const trace::Dataset& dataset, const tensor::Shape& shape,
                            const tensor::Range& range, const tensor::Box& box,
                            std::span<std::byte> out);

}  // namespace ttrace::measure
