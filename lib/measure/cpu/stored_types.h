// Decodes the stored numbers of each type. Part of kernel_source.h: the linker must not see it.
#pragma once

#include "measure/cpu/vectors.h"

namespace ttrace::measure {
namespace {

// Each type has Bits, the stored element, and Unit, of which a vector is read. A unit is one
// element, or several, of which decode<n> takes the n-th.
struct F64 {
  using Bits = double;
  using Unit = double;
  static constexpr bool kExactProducts = false;
  template <std::size_t>
  [[gnu::always_inline]] static Doubles decode(Doubles stored) {
    return stored;
  }
};

// Products of two values of the narrower types have at most 48 bits: they are exact in double.
struct F32 {
  using Bits = float;
  using Unit = float;
  static constexpr bool kExactProducts = true;
  template <std::size_t>
  [[gnu::always_inline]] static Doubles decode(Floats stored) {
    return widened(stored);
  }
};

struct F16 {
  using Bits = unsigned short;
  using Unit = unsigned short;
  static constexpr bool kExactProducts = true;
  template <std::size_t>
  [[gnu::always_inline]] static Doubles decode(Halves stored) {
    return widened(floats_of(stored));
  }
};

// Two in a word: each becomes a float by one operation.
struct BF16 {
  using Bits = unsigned short;
  using Unit = unsigned;
  static constexpr bool kExactProducts = true;
  template <std::size_t kWhich>
  [[gnu::always_inline]] static Doubles decode(Words stored) {
    return widened(same_bits<Floats>(kWhich == 0 ? stored << 16 : stored & 0xffff0000U));
  }
};

// Distance of the lanes of one vector.
template <typename Type>
constexpr std::size_t kApart = sizeof(typename Type::Unit) / sizeof(typename Type::Bits);

// Reads the numbers of the lanes 0, kApart, 2 kApart, ... from `from` on, or of their `kWhich`-th
// neighbours.
template <typename Type, std::size_t kWhich>
[[gnu::always_inline]] inline Doubles read(const char* from) {
  Vector<typename Type::Unit> stored;
  __builtin_memcpy(&stored, from, sizeof stored);
  return Type::template decode<kWhich>(stored);
}

// As a half with the same bits of exponent and mantissa, whose bias is larger by 8.
struct F8E4M3 {
  using Bits = unsigned char;
  using Unit = unsigned char;
  static constexpr bool kExactProducts = true;
  template <std::size_t>
  [[gnu::always_inline]] static Doubles decode(Bytes stored) {
    const Halves bits = halves_of(stored);
    const Halves magnitude = bits & 0x7f;  // no infinities; all ones is NaN
    const Halves nan = same_bits<Halves>(magnitude == 0x7f) & 0x7c00;
    return widened(floats_of((bits & 0x80) << 8 | magnitude << 7 | nan) * 0x1p8F);
  }
};

struct F8E5M2 {
  using Bits = unsigned char;
  using Unit = unsigned char;
  static constexpr bool kExactProducts = true;
  template <std::size_t>
  [[gnu::always_inline]] static Doubles decode(Bytes stored) {
    return widened(floats_of(halves_of(stored) << 8));
  }
};

}  // namespace
}  // namespace ttrace::measure
