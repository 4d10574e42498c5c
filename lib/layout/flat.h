// A range of a flattened tensor as hyper-rectangles of the tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/box.h"

namespace ttrace::layout {

// Elements [start, stop) of an array of `shape` in row-major order: at most 2·dimensions - 1 boxes,
// in that order, none empty. stop must not exceed the number of elements, which must fit 64 bits.
std::vector<tensor::Box> flat_boxes(const tensor::Shape& shape, std::uint64_t start,
                                    std::uint64_t stop);

}  // namespace ttrace::layout
