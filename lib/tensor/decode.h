// Stored bits to numbers, exactly: every value of every element type narrower than 64 bits is a
// binary64 number, so decoding never rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace ttrace::tensor {

double decode_float16(std::uint16_t bits);
double decode_bfloat16(std::uint16_t bits);
// E4M3 in the "fn" variant: no infinities, 0x7f and 0xff are NaN, largest 448.
double decode_float8_e4m3(std::uint8_t bits);
double decode_float8_e5m2(std::uint8_t bits);

// `bytes` holds out.size() little-endian elements of `dtype`. NaN stays NaN (its payload does not
// matter here), infinities keep their sign. 64-bit integers beyond 2^53 round; use decode_integers
// where equality counts. Bool: 0 is 0, anything else 1.
void decode_floats(DType dtype, std::span<const std::byte> bytes, std::span<double> out);

// Integers and bool, sign- or zero-extended; a uint64 keeps its bits. Throws for floating dtypes.
void decode_integers(DType dtype, std::span<const std::byte> bytes, std::span<std::int64_t> out);

}  // namespace ttrace::tensor
