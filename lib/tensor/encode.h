// Numbers to stored bits: the inverse of decode, with one rounding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace ttrace::tensor {

// `bytes` gets values.size() little-endian elements of the floating-point type `dtype`, every value
// as round_to gives it: the nearest, ties to even, infinite beyond the largest (E4M3: NaN). NaN
// becomes quiet and keeps its sign. Throws an internal error for integers.
void encode_floats(DType dtype, std::span<const double> values, std::span<std::byte> bytes);

// The lowest bits of every value, for integers; bool: 0 stays 0, anything else becomes 1. Throws an
// internal error for floating-point types.
void encode_integers(DType dtype, std::span<const std::int64_t> values, std::span<std::byte> bytes);

}  // namespace ttrace::tensor
