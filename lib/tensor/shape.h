// Extents of a tensor or shard, outermost dimension first. An empty shape is a 0-d tensor with one
// element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace ttrace::tensor {

using Shape = std::vector<std::uint64_t>;

inline constexpr std::size_t kMostDimensions = 32;  // HDF5's own limit

// Number of elements, or nothing if it overflows 64 bits.
std::optional<std::uint64_t> element_count(const Shape& shape);

// Size in bytes of a dense tensor, or nothing if it overflows 64 bits.
std::optional<std::uint64_t> byte_count(const Shape& shape, DType dtype);

// Row-major position of the element at `point` within an array of `shape`.
std::uint64_t position(const Shape& shape, const Shape& point);

// "[8, 32]", "[]".
std::string to_string(const Shape& shape);

}  // namespace ttrace::tensor
