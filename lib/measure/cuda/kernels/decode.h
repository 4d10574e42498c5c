// Numbers from stored bits, and rounding to a narrower type: to the bit what tensor/codec.h gives.
#pragma once

#include <cmath>
#include <cstdint>

#include "measure/cuda/kernels/execution.h"
#include "measure/cuda/kernels/work.h"
#include "tensor/dtype.h"

namespace ttrace::measure::cuda {

// Decodes IEEE half precision. Makes a float with the wanted mantissa, whose exponent is off by a
// constant; multiplying by a power of two corrects it, for subnormal numbers too.
TTRACE_DEVICE float float_of_half(std::uint32_t half) {
  const std::uint32_t magnitude = half & 0x7fffU;
  const float finite = same_bits<float>(magnitude << 13) * 0x1p112F;
  const std::uint32_t special = (magnitude << 13) | 0x7f800000U;
  const std::uint32_t bits = magnitude >= 0x7c00U ? special : same_bits<std::uint32_t>(finite);
  return same_bits<float>(bits | (half & 0x8000U) << 16);
}

// Each type has Bits, the stored element, and Number, which holds every value of the type.
// kExactProducts: products of two values are exact in binary64, so that a fused multiply-add gives
// the bits of a product and a sum.
struct StoredF64 {
  using Bits = double;
  using Number = double;
  static constexpr bool kExactProducts = false;
  TTRACE_DEVICE static Number decode(Bits bits) { return bits; }
};

struct StoredF32 {
  using Bits = float;
  using Number = float;
  static constexpr bool kExactProducts = true;
  TTRACE_DEVICE static Number decode(Bits bits) { return bits; }
};

struct StoredF16 {
  using Bits = std::uint16_t;
  using Number = float;
  static constexpr bool kExactProducts = true;
  TTRACE_DEVICE static Number decode(Bits bits) { return float_of_half(bits); }
};

struct StoredBF16 {
  using Bits = std::uint16_t;
  using Number = float;
  static constexpr bool kExactProducts = true;
  TTRACE_DEVICE static Number decode(Bits bits) {
    return same_bits<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

// Decodes the half with the same bits of exponent and mantissa, whose bias is larger by 8. There
// are no infinities; all ones is NaN.
struct StoredF8E4M3 {
  using Bits = std::uint8_t;
  using Number = float;
  static constexpr bool kExactProducts = true;
  TTRACE_DEVICE static Number decode(Bits bits) {
    const std::uint32_t magnitude = bits & 0x7fU;
    const std::uint32_t nan = magnitude == 0x7fU ? 0x7c00U : 0U;
    return float_of_half((bits & 0x80U) << 8 | magnitude << 7 | nan) * 0x1p8F;
  }
};

struct StoredF8E5M2 {
  using Bits = std::uint8_t;
  using Number = float;
  static constexpr bool kExactProducts = true;
  TTRACE_DEVICE static Number decode(Bits bits) {
    return float_of_half(static_cast<std::uint32_t>(bits) << 8);
  }
};

template <typename Bits>
TTRACE_DEVICE Bits stored_at(const void* bits, std::uint64_t i) {
  return static_cast<const Bits*>(bits)[i];
}

// The stored value of element i, whatever its type. Integers beyond 2^53 are rounded.
TTRACE_DEVICE double decode_at(tensor::DType dtype, const void* bits, std::uint64_t i) {
  using tensor::DType;
  switch (dtype) {
    case DType::kFloat64:
      return stored_at<double>(bits, i);
    case DType::kFloat32:
    case DType::kTensorFloat32:  // nothing is stored in it
      return static_cast<double>(stored_at<float>(bits, i));
    case DType::kFloat16:
      return static_cast<double>(StoredF16::decode(stored_at<std::uint16_t>(bits, i)));
    case DType::kBFloat16:
      return static_cast<double>(StoredBF16::decode(stored_at<std::uint16_t>(bits, i)));
    case DType::kFloat8E4M3:
      return static_cast<double>(StoredF8E4M3::decode(stored_at<std::uint8_t>(bits, i)));
    case DType::kFloat8E5M2:
      return static_cast<double>(StoredF8E5M2::decode(stored_at<std::uint8_t>(bits, i)));
    case DType::kInt8:
      return static_cast<double>(stored_at<std::int8_t>(bits, i));
    case DType::kInt16:
      return static_cast<double>(stored_at<std::int16_t>(bits, i));
    case DType::kInt32:
      return static_cast<double>(stored_at<std::int32_t>(bits, i));
    case DType::kInt64:
      return static_cast<double>(stored_at<std::int64_t>(bits, i));
    case DType::kUInt8:
      return static_cast<double>(stored_at<std::uint8_t>(bits, i));
    case DType::kUInt16:
      return static_cast<double>(stored_at<std::uint16_t>(bits, i));
    case DType::kUInt32:
      return static_cast<double>(stored_at<std::uint32_t>(bits, i));
    case DType::kUInt64:
      return static_cast<double>(stored_at<std::uint64_t>(bits, i));
    case DType::kBool:
      return stored_at<std::uint8_t>(bits, i) != 0 ? 1.0 : 0.0;
  }
  return 0;
}

TTRACE_DEVICE double number_at(const DeviceValues& values, std::uint64_t i) {
  return decode_at(values.dtype, values.bits, i) * values.scale;
}

TTRACE_DEVICE bool is_finite(double value) {
  constexpr std::uint64_t kExponent = 0x7ffULL << 52;
  return (same_bits<std::uint64_t>(value) & kExponent) != kExponent;
}

// 2^exponent of a normal number.
TTRACE_DEVICE double power_of_two(int exponent) {
  return same_bits<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// Rounds to a type of `digits` digits, `smallest` exponent of a normal number and `largest` number.
TTRACE_DEVICE double round_to_format(double value, int digits, int smallest, double largest,
                                     bool infinities) {
  const double kInfinity = same_bits<double>(0x7ffULL << 52);
  const double kNan = same_bits<double>(0x7ff8ULL << 48);
  if (!is_finite(value)) return infinities ? value : kNan;
  if (value == 0) return value;
  // A subnormal binary64 number is far below the smallest exponent of all other types.
  const int exponent = static_cast<int>(same_bits<std::uint64_t>(value) >> 52 & 0x7ffU) - 1023;
  const int last = (exponent > smallest ? exponent : smallest) - (digits - 1);
  const double rounded = rint(value * power_of_two(-last)) * power_of_two(last);
  if (fabs(rounded) <= largest) return rounded;
  return infinities ? copysign(kInfinity, value) : kNan;
}

// As tensor::round_to, for floating-point types.
TTRACE_DEVICE double round_to_type(tensor::DType dtype, double value) {
  using tensor::DType;
  switch (dtype) {
    case DType::kFloat32:
      return static_cast<double>(static_cast<float>(value));
    case DType::kFloat16:
      return round_to_format(value, 11, -14, 65504, true);
    case DType::kBFloat16:
      return round_to_format(value, 8, -126, 0x1.fep127, true);
    case DType::kFloat8E4M3:
      return round_to_format(value, 4, -6, 448, false);
    case DType::kFloat8E5M2:
      return round_to_format(value, 3, -14, 57344, true);
    default:
      return value;
  }
}

}  // namespace ttrace::measure::cuda
