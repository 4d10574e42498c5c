#include "tensor/encode.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "tensor/round_to.h"

namespace ttrace::tensor {
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

// Magnitude bits of what is not a normal number of the type with room above it.
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
    // Ties to even: a carry goes into the exponent, where it belongs.
    std::uint64_t bits = ((magnitude + below_half + ((magnitude >> shift) & 1)) >> shift) - rebias;
    // An exponent below the type's wraps around and is beyond the largest number too; the smallest
    // normal number may be a rounded subnormal one.
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
