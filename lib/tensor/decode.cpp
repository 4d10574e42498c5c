#include "tensor/decode.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace ttrace::tensor {
namespace {

static_assert(std::endian::native == std::endian::little, "stored bits are read in place");

template <typename T, typename Out, typename Convert>
void convert_each(std::span<const std::byte> bytes, std::span<Out> out, Convert convert) {
  if (bytes.size() != out.size() * sizeof(T)) {
    throw base::internal_error("decoding ", bytes.size(), " bytes into ", out.size(), " elements");
  }
  const std::byte* from = bytes.data();
  for (Out& value : out) {
    T stored;
    std::memcpy(&stored, from, sizeof(T));
    value = convert(stored);
    from += sizeof(T);
  }
}

template <typename T, typename Out>
void widen_each(std::span<const std::byte> bytes, std::span<Out> out) {
  convert_each<T>(bytes, out, [](T stored) { return static_cast<Out>(stored); });
}

template <typename Out>
void widen_integers(DType dtype, std::span<const std::byte> bytes, std::span<Out> out) {
  switch (dtype) {
    case DType::kInt8:
      return widen_each<std::int8_t>(bytes, out);
    case DType::kInt16:
      return widen_each<std::int16_t>(bytes, out);
    case DType::kInt32:
      return widen_each<std::int32_t>(bytes, out);
    case DType::kInt64:
      return widen_each<std::int64_t>(bytes, out);
    case DType::kUInt8:
      return widen_each<std::uint8_t>(bytes, out);
    case DType::kUInt16:
      return widen_each<std::uint16_t>(bytes, out);
    case DType::kUInt32:
      return widen_each<std::uint32_t>(bytes, out);
    case DType::kUInt64:
      return widen_each<std::uint64_t>(bytes, out);
    case DType::kBool:
      return convert_each<std::uint8_t>(
          bytes, out, [](std::uint8_t stored) { return static_cast<Out>(stored != 0); });
    default:
      throw base::internal_error("unknown dtype");
  }
}

// IEEE-like small floats: `mantissa_bits` below `exponent_bits` below the sign.
double decode_small(unsigned bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const unsigned exponent_mask = (1U << exponent_bits) - 1;
  const unsigned mantissa_mask = (1U << mantissa_bits) - 1;
  const bool negative = ((bits >> (exponent_bits + mantissa_bits)) & 1U) != 0;
  const unsigned exponent = (bits >> mantissa_bits) & exponent_mask;
  const unsigned mantissa = bits & mantissa_mask;

  double magnitude = 0;
  if (has_infinity && exponent == exponent_mask) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else if (!has_infinity && exponent == exponent_mask && mantissa == mantissa_mask) {
    magnitude = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<double>(mantissa), 1 - bias - mantissa_bits);
  } else {
    magnitude = std::ldexp(static_cast<double>(mantissa | (1U << mantissa_bits)),
                           static_cast<int>(exponent) - bias - mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

template <int kExponentBits, int kMantissaBits, bool kHasInfinity>
const auto& table() {
  constexpr std::size_t kCodes = std::size_t{1} << (1 + kExponentBits + kMantissaBits);
  static const auto values = [] {
    std::array<double, kCodes> filled{};
    for (unsigned code = 0; code < kCodes; ++code) {
      filled[code] = decode_small(code, kExponentBits, kMantissaBits, kHasInfinity);
    }
    return filled;
  }();
  return values;
}

}  // namespace

double decode_float16(std::uint16_t bits) { return table<5, 10, true>()[bits]; }

double decode_bfloat16(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
}

double decode_float8_e4m3(std::uint8_t bits) { return table<4, 3, false>()[bits]; }

double decode_float8_e5m2(std::uint8_t bits) { return table<5, 2, true>()[bits]; }

void decode_floats(DType dtype, std::span<const std::byte> bytes, std::span<double> out) {
  switch (dtype) {
    case DType::kFloat64:
      return widen_each<double>(bytes, out);
    case DType::kFloat32:
      return widen_each<float>(bytes, out);
    case DType::kFloat16:
      return convert_each<std::uint16_t>(bytes, out, decode_float16);
    case DType::kBFloat16:
      return convert_each<std::uint16_t>(bytes, out, decode_bfloat16);
    case DType::kFloat8E4M3:
      return convert_each<std::uint8_t>(bytes, out, decode_float8_e4m3);
    case DType::kFloat8E5M2:
      return convert_each<std::uint8_t>(bytes, out, decode_float8_e5m2);
    default:
      return widen_integers(dtype, bytes, out);
  }
}

void decode_integers(DType dtype, std::span<const std::byte> bytes, std::span<std::int64_t> out) {
  if (is_floating(dtype)) {
    throw base::internal_error(dtype_name(dtype), " is not an integer type");
  }
  widen_integers(dtype, bytes, out);
}

}  // namespace ttrace::tensor
