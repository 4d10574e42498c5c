// Every code of every narrow float type, against formulas that share nothing with the library's.
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "support/catch.h"
#include "tensor/codec.h"

namespace ttrace::tensor::decode_small_floats_test {
namespace {

// Widens IEEE fields by moving bits: a binary64 with the same sign, the exponent re-biased and the
// mantissa left-aligned. No arithmetic on floats.
std::uint64_t widened(std::uint64_t code, int exponent_bits, int mantissa_bits) {
  const std::uint64_t sign = code >> (exponent_bits + mantissa_bits);
  const std::uint64_t all_ones = (std::uint64_t{1} << exponent_bits) - 1;
  std::uint64_t exponent = (code >> mantissa_bits) & all_ones;
  std::uint64_t fraction = (code << (64 - mantissa_bits)) >> 12;  // 52 bits, left-aligned
  const std::uint64_t shift = 1023 - ((std::uint64_t{1} << (exponent_bits - 1)) - 1);
  if (exponent == all_ones) {
    exponent = 0x7ff;
  } else if (exponent != 0) {
    exponent += shift;
  } else if (fraction != 0) {
    exponent = shift + 1;
    while ((fraction >> 52) == 0) {  // until the leading one is where binary64 hides it
      fraction <<= 1;
      --exponent;
    }
    fraction &= (std::uint64_t{1} << 52) - 1;
  }
  return sign << 63 | exponent << 52 | fraction;
}

// The same number in every bit, or both NaN.
bool identical(double value, std::uint64_t expected) {
  if (std::isnan(std::bit_cast<double>(expected))) return std::isnan(value);
  return std::bit_cast<std::uint64_t>(value) == expected;
}

template <typename Decode>
void check_all_codes(std::uint32_t codes, Decode decode, int exponent_bits, int mantissa_bits) {
  std::uint32_t wrong = 0;
  std::uint32_t last = 0;
  for (std::uint32_t code = 0; code < codes; ++code) {
    if (identical(decode(code), widened(code, exponent_bits, mantissa_bits))) continue;
    ++wrong;
    last = code;
  }
  CAPTURE(last);
  CHECK(wrong == 0);
}

TEST_CASE("all 65536 codes of float16 decode exactly") {
  check_all_codes(
      0x10000, [](std::uint32_t code) { return decode_float16(static_cast<std::uint16_t>(code)); },
      5, 10);
}

TEST_CASE("all 65536 codes of bfloat16 decode exactly") {
  check_all_codes(
      0x10000, [](std::uint32_t code) { return decode_bfloat16(static_cast<std::uint16_t>(code)); },
      8, 7);
}

TEST_CASE("all 256 codes of float8 e5m2 decode exactly") {
  check_all_codes(
      0x100, [](std::uint32_t code) { return decode_float8_e5m2(static_cast<std::uint8_t>(code)); },
      5, 2);
}

TEST_CASE("all 256 codes of float8 e4m3 decode exactly") {
  // The codes count up in steps that double every 8 codes: 0, 1, ... 15, 16, 18, ... times 2^-9.
  std::uint64_t units = 0;
  std::uint64_t step = 1;
  for (unsigned code = 0; code < 0x7f; ++code) {
    CAPTURE(code);
    const double expected = static_cast<double>(units) / 512;
    CHECK(identical(decode_float8_e4m3(static_cast<std::uint8_t>(code)),
                    std::bit_cast<std::uint64_t>(expected)));
    CHECK(identical(decode_float8_e4m3(static_cast<std::uint8_t>(code | 0x80)),
                    std::bit_cast<std::uint64_t>(-expected)));
    units += step;
    if (code >= 15 && code % 8 == 7) step *= 2;
  }
  CHECK(std::isnan(decode_float8_e4m3(0x7f)));
  CHECK(std::isnan(decode_float8_e4m3(0xff)));
}

TEST_CASE("known values of float16") {
  CHECK(decode_float16(0x3c00) == 1);
  CHECK(decode_float16(0x3555) == 0x1.554p-2);
  CHECK(decode_float16(0x7bff) == 65504);
  CHECK(decode_float16(0x0400) == 0x1p-14);
  CHECK(decode_float16(0x03ff) == 0x1.ff8p-15);
  CHECK(decode_float16(0x0001) == 0x1p-24);
  CHECK(decode_float16(0xfc00) == -std::numeric_limits<double>::infinity());
  CHECK(std::signbit(decode_float16(0x8000)));
}

TEST_CASE("known values of bfloat16") {
  CHECK(decode_bfloat16(0x3f80) == 1);
  CHECK(decode_bfloat16(0x4049) == 3.140625);
  CHECK(decode_bfloat16(0x7f7f) == 0x1.fep127);
  CHECK(decode_bfloat16(0x0001) == 0x1p-133);
  CHECK(decode_bfloat16(0x7f80) == std::numeric_limits<double>::infinity());
  CHECK(std::isnan(decode_bfloat16(0x7fc0)));
}

TEST_CASE("known values of float8 e4m3") {
  const std::pair<unsigned, double> known[] = {
      {0x7e, 448}, {0x78, 256},    {0x38, 1},        {0xb8, -1},     {0x39, 1.125}, {0x30, 0.5},
      {0x40, 2},   {0x08, 0x1p-6}, {0x07, 0x1.cp-7}, {0x01, 0x1p-9}, {0x00, 0},     {0xfe, -448}};
  for (const auto& [code, value] : known) {
    CAPTURE(code);
    CHECK(decode_float8_e4m3(static_cast<std::uint8_t>(code)) == value);
  }
  CHECK(std::signbit(decode_float8_e4m3(0x80)));
}

TEST_CASE("known values of float8 e5m2") {
  const std::pair<unsigned, double> known[] = {{0x7b, 57344},     {0x3c, 1},       {0x3d, 1.25},
                                               {0x40, 2},         {0x04, 0x1p-14}, {0x01, 0x1p-16},
                                               {0x03, 0x1.8p-15}, {0xfb, -57344}};
  for (const auto& [code, value] : known) {
    CAPTURE(code);
    CHECK(decode_float8_e5m2(static_cast<std::uint8_t>(code)) == value);
  }
  CHECK(decode_float8_e5m2(0x7c) == std::numeric_limits<double>::infinity());
  CHECK(decode_float8_e5m2(0xfc) == -std::numeric_limits<double>::infinity());
  for (const unsigned nan : {0x7dU, 0x7eU, 0x7fU, 0xfdU}) {
    CHECK(std::isnan(decode_float8_e5m2(static_cast<std::uint8_t>(nan))));
  }
}

}  // namespace
}  // namespace ttrace::tensor::decode_small_floats_test
