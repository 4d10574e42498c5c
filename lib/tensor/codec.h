// Numbers as an element type would hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace ttrace::tensor {

// `value` rounded to the nearest number of the floating-point type, ties to even, subnormals
// included (IEEE 754 and the OCP 8-bit formats). Beyond the largest number: infinite, and NaN in
// E4M3, which has no infinities. NaN and infinities stay (in E4M3 both are NaN). Throws an internal
// error for integers.
double round_to(DType dtype, double value);

// Stored bits to numbers, exactly: every value of every element type narrower than 64 bits is a
// binary64 number, so decoding never rounds.

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

// Numbers to stored bits: the inverse of decode, with one rounding.

// `bytes` gets values.size() little-endian elements of the floating-point type `dtype`, every value
// as round_to gives it: the nearest, ties to even, infinite beyond the largest (E4M3: NaN). NaN
// becomes quiet and keeps its sign. Throws an internal error for integers.
void encode_floats(DType dtype, std::span<const double> values, std::span<std::byte> bytes);

// The lowest bits of every value, for integers; bool: 0 stays 0, anything else becomes 1. Throws an
// internal error for floating-point types.
void encode_integers(DType dtype, std::span<const std::int64_t> values, std::span<std::byte> bytes);

}  // namespace ttrace::tensor
