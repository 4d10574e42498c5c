// Converts between numbers and the stored bits of an element type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace ttrace::tensor {

// The numbers of a floating-point type.
struct FloatFormat {
  int digits = 0;           // of the significand, with the leading one
  int smallest = 0;         // exponent of the smallest normal number
  double largest = 0;       // finite number
  bool infinities = false;  // E4M3 has none
};

// Throws an internal error for integer types.
FloatFormat float_format(DType dtype);

// Returns `value` rounded to the nearest number of the floating-point type, ties to even,
// subnormals included (IEEE 754 and the OCP 8-bit formats). Values beyond the largest number become
// infinite, or NaN in E4M3, which has no infinities. NaN and infinities are kept (in E4M3 both are
// NaN). Throws an internal error for integer types.
double round_to(DType dtype, double value);

// Decoding is exact: binary64 represents every value of every element type narrower than 64 bits.

double decode_float16(std::uint16_t bits);
double decode_bfloat16(std::uint16_t bits);
// The "fn" variant of E4M3: no infinities, 0x7f and 0xff are NaN, the largest number is 448.
double decode_float8_e4m3(std::uint8_t bits);
double decode_float8_e5m2(std::uint8_t bits);

// Decodes out.size() little-endian elements of `dtype`. NaN stays NaN, possibly with another
// payload; infinities keep their sign. 64-bit integers beyond 2^53 are rounded: use decode_integers
// to test for equality. A bool is 0 if its byte is 0, else 1.
void decode_floats(DType dtype, std::span<const std::byte> bytes, std::span<double> out);

// Decodes integers and bool, sign- or zero-extended; a uint64 keeps its bits. Throws an internal
// error for floating-point types.
void decode_integers(DType dtype, std::span<const std::byte> bytes, std::span<std::int64_t> out);

// Encodes values.size() little-endian elements of the floating-point type `dtype`, each rounded as
// by round_to(). NaN becomes quiet and keeps its sign. Throws an internal error for integer types.
void encode_floats(DType dtype, std::span<const double> values, std::span<std::byte> bytes);

// Encodes the lowest bits of every value as integers; as bool, 0 is 0 and anything else 1. Throws
// an internal error for floating-point types.
void encode_integers(DType dtype, std::span<const std::int64_t> values, std::span<std::byte> bytes);

}  // namespace ttrace::tensor
