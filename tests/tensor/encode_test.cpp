#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "support/catch.h"
#include "tensor/codec.h"

namespace ttrace::tensor::encode_test {
namespace {

constexpr std::array kFloats{DType::kFloat64,  DType::kFloat32,    DType::kFloat16,
                             DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2};

std::vector<std::byte> encoded(DType dtype, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * element_bytes(dtype));
  encode_floats(dtype, values, bytes);
  return bytes;
}

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

void check_as_rounded(DType dtype, const std::vector<double>& values) {
  std::vector<double> decoded(values.size());
  decode_floats(dtype, encoded(dtype, values), decoded);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (same(decoded[i], round_to(dtype, values[i]))) continue;
    UNSCOPED_INFO(dtype_name(dtype) << " " << values[i] << " became " << decoded[i]);
    ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("every number is stored as it is rounded") {
  std::mt19937_64 random(7);
  for (const DType dtype : kFloats) {
    std::vector<double> values;
    for (int i = 0; i < 20'000; ++i) {
      const double mantissa = std::uniform_real_distribution(-2.0, 2.0)(random);
      values.push_back(std::ldexp(mantissa, std::uniform_int_distribution(-160, 140)(random)));
      values.push_back(std::ldexp(mantissa, std::uniform_int_distribution(-18, 10)(random)));
    }
    check_as_rounded(dtype, values);
  }
}

TEST_CASE("ties, the smallest and largest numbers, zeros and what is not finite") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : kFloats) {
    std::vector<double> values{0.0, -0.0, infinity, -infinity, std::nan("")};
    for (int exponent = -160; exponent < 140; ++exponent) {
      // Halves and just beside them, for every width of the mantissa.
      for (int digit = 1; digit < 26; ++digit) {
        for (const double odd : {1.0, 3.0}) {
          const double tie = std::ldexp(1 + odd * std::ldexp(1.0, -digit), exponent);
          for (const double value :
               {tie, std::nextafter(tie, 0.0), std::nextafter(tie, infinity)}) {
            values.push_back(value);
            values.push_back(-value);
          }
        }
      }
    }
    for (const double largest : {448.0, 464.0, 465.0, 57344.0, 61440.0, 65504.0, 65520.0}) {
      values.push_back(largest);
      values.push_back(-std::nextafter(largest, 0.0));
    }
    check_as_rounded(dtype, values);
  }
}

TEST_CASE("every pattern of the narrow types comes back") {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      const auto stored = static_cast<std::uint16_t>(bits);
      const double value =
          dtype == DType::kFloat16 ? decode_float16(stored) : decode_bfloat16(stored);
      if (std::isnan(value)) continue;
      std::uint16_t back = 0;
      encode_floats(dtype, {&value, 1}, std::as_writable_bytes(std::span(&back, 1)));
      if (back != stored) FAIL_CHECK(dtype_name(dtype) << " " << bits << " became " << back);
    }
  }
}

TEST_CASE("integers keep their lowest bits, bool becomes 0 or 1") {
  const std::vector<std::int64_t> values{0, 1, -1, 300, std::numeric_limits<std::int64_t>::min()};
  for (const DType dtype : kAllDTypes) {
    std::vector<std::byte> bytes(values.size() * element_bytes(dtype));
    if (is_floating(dtype)) {
      CHECK_THROWS_AS(encode_integers(dtype, values, bytes), base::Error);
      continue;
    }
    CHECK_THROWS_AS(encode_floats(dtype, std::vector<double>(5), bytes), base::Error);
    encode_integers(dtype, values, bytes);
    std::vector<std::int64_t> back(values.size());
    decode_integers(dtype, bytes, back);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::int64_t expected = values[i];
      if (dtype == DType::kBool) expected = expected != 0 ? 1 : 0;
      if (dtype == DType::kInt8) expected = static_cast<std::int8_t>(expected);
      if (dtype == DType::kInt16) expected = static_cast<std::int16_t>(expected);
      if (dtype == DType::kInt32) expected = static_cast<std::int32_t>(expected);
      if (dtype == DType::kUInt8) expected = static_cast<std::uint8_t>(expected);
      if (dtype == DType::kUInt16) expected = static_cast<std::uint16_t>(expected);
      if (dtype == DType::kUInt32) expected = static_cast<std::uint32_t>(expected);
      CHECK(back[i] == expected);
    }
  }
}

}  // namespace
}  // namespace ttrace::tensor::encode_test
