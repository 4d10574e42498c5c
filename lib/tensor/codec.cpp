#include "tensor/codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace ttrace::tensor {

FloatFormat float_format(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return {53, -1022, std::numeric_limits<double>::max(), true};
    case DType::kFloat32:
      return {24, -126, std::numeric_limits<float>::max(), true};
    case DType::kFloat16:
      return {11, -14, 65504, true};
    case DType::kBFloat16:
      return {8, -126, 0x1.fep127, true};
    case DType::kFloat8E4M3:
      return {4, -6, 448, false};
    case DType::kFloat8E5M2:
      return {3, -14, 57344, true};
    default:
      throw base::internal_error(dtype_name(dtype), " is no floating-point type");
  }
}

double round_to(DType dtype, double value) {
  if (dtype == DType::kFloat64) return value;
  if (dtype == DType::kFloat32) return static_cast<double>(static_cast<float>(value));
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const FloatFormat format = float_format(dtype);
  if (!std::isfinite(value)) return format.infinities ? value : kNan;
  if (value == 0) return value;
  const int exponent = std::max(std::ilogb(value), format.smallest);
  const int last = exponent - (format.digits - 1);  // exponent of the last digit
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -last)), last);
  if (std::abs(rounded) <= format.largest) return rounded;
  return format.infinities ? std::copysign(std::numeric_limits<double>::infinity(), value) : kNan;
}

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

// Decodes a small IEEE-like float: sign, `exponent_bits`, `mantissa_bits` from the highest bit on.
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

namespace {

constexpr int kDoubleMantissa = 52;
constexpr int kDoubleBias = 1023;

struct Fields {
  DType dtype;
  int bits;
  int mantissa;
  int bias;
  std::uint64_t largest;   // bits of the largest finite number
  std::uint64_t infinity;  // of E4M3: its NaN
  std::uint64_t nan;
};

constexpr Fields kFloat16Fields{DType::kFloat16, 16, 10, 15, 0x7bff, 0x7c00, 0x7e00};
constexpr Fields kBFloat16Fields{DType::kBFloat16, 16, 7, 127, 0x7f7f, 0x7f80, 0x7fc0};
constexpr Fields kE4M3Fields{DType::kFloat8E4M3, 8, 3, 7, 0x7e, 0x7f, 0x7f};
constexpr Fields kE5M2Fields{DType::kFloat8E5M2, 8, 2, 15, 0x7b, 0x7c, 0x7e};

// The magnitude bits of values that encode_narrow() cannot encode directly: NaN, infinities,
// numbers that overflow, and subnormals.
std::uint64_t encode_rare(const Fields& fields, double value) {
  const double rounded = std::abs(round_to(fields.dtype, value));
  if (std::isnan(rounded)) return fields.nan;
  if (std::isinf(rounded)) return fields.infinity;
  const double unit = std::ldexp(1.0, 1 - fields.bias - fields.mantissa);
  if (rounded < std::ldexp(1.0, 1 - fields.bias)) {
    return static_cast<std::uint64_t>(rounded / unit);  // subnormal: a multiple of the unit
  }
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(rounded);
  const auto rebias = static_cast<std::uint64_t>(kDoubleBias - fields.bias) << fields.mantissa;
  return (bits >> (kDoubleMantissa - fields.mantissa)) - rebias;
}

template <typename Bits>
void encode_narrow(const Fields& fields, std::span<const double> values, std::byte* out) {
  const int shift = kDoubleMantissa - fields.mantissa;
  const std::uint64_t rebias = static_cast<std::uint64_t>(kDoubleBias - fields.bias)
                               << fields.mantissa;
  const std::uint64_t smallest = std::uint64_t{1} << fields.mantissa;  // normal number
  const std::uint64_t below_half = (std::uint64_t{1} << (shift - 1)) - 1;
  for (const double value : values) {
    const std::uint64_t all = std::bit_cast<std::uint64_t>(value);
    const std::uint64_t magnitude = all & ~(std::uint64_t{1} << 63);
    // Ties to even. A carry out of the mantissa correctly increments the exponent.
    std::uint64_t bits = ((magnitude + below_half + ((magnitude >> shift) & 1)) >> shift) - rebias;
    // An exponent below the type's range wraps around, so it exceeds the largest number too. The
    // smallest normal number may be a rounded subnormal.
    if (bits <= smallest || bits > fields.largest) bits = encode_rare(fields, value);
    bits |= (all >> 63) << (fields.bits - 1);
    const auto stored = static_cast<Bits>(bits);
    std::memcpy(out, &stored, sizeof stored);
    out += sizeof stored;
  }
}

template <typename Stored, typename Value>
void convert(std::span<const Value> values, std::byte* out) {
  for (const Value value : values) {
    const auto stored = static_cast<Stored>(value);
    std::memcpy(out, &stored, sizeof stored);
    out += sizeof stored;
  }
}

}  // namespace

void encode_floats(DType dtype, std::span<const double> values, std::span<std::byte> bytes) {
  switch (dtype) {
    case DType::kFloat64:
      return convert<double>(values, bytes.data());
    case DType::kFloat32:
      return convert<float>(values, bytes.data());
    case DType::kFloat16:
      return encode_narrow<std::uint16_t>(kFloat16Fields, values, bytes.data());
    case DType::kBFloat16:
      return encode_narrow<std::uint16_t>(kBFloat16Fields, values, bytes.data());
    case DType::kFloat8E4M3:
      return encode_narrow<std::uint8_t>(kE4M3Fields, values, bytes.data());
    case DType::kFloat8E5M2:
      return encode_narrow<std::uint8_t>(kE5M2Fields, values, bytes.data());
    default:
      throw base::internal_error("encoding numbers as ", dtype_name(dtype));
  }
}

void encode_integers(DType dtype, std::span<const std::int64_t> values,
                     std::span<std::byte> bytes) {
  switch (dtype) {
    case DType::kInt8:
    case DType::kUInt8:
      return convert<std::uint8_t>(values, bytes.data());
    case DType::kInt16:
    case DType::kUInt16:
      return convert<std::uint16_t>(values, bytes.data());
    case DType::kInt32:
    case DType::kUInt32:
      return convert<std::uint32_t>(values, bytes.data());
    case DType::kInt64:
    case DType::kUInt64:
      return convert<std::uint64_t>(values, bytes.data());
    case DType::kBool:
      for (std::size_t i = 0; i < values.size(); ++i) bytes[i] = std::byte(values[i] != 0 ? 1 : 0);
      return;
    default:
      throw base::internal_error("encoding integers as ", dtype_name(dtype));
  }
}

}  // namespace ttrace::tensor
