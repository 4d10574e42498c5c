// Vectors of one width per instruction set, the few operations on them that the compiler does not
// find by itself, and how they decode the stored numbers of each type. Part of kernel_source.cpp:
// the linker must not see it.
#pragma once

#include <cstddef>

#include "measure/cpu/kernel.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace ttrace::measure {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t kWidth = 8;
#elif defined(__AVX2__)
constexpr std::size_t kWidth = 4;
#else
constexpr std::size_t kWidth = 2;
#endif

template <typename T>
using Vector [[gnu::vector_size(kWidth * sizeof(T))]] = T;

using Doubles = Vector<double>;
using Floats = Vector<float>;
using Words = Vector<unsigned>;
using Halves = Vector<unsigned short>;
using Bytes = Vector<unsigned char>;
using Longs = Vector<long long>;

template <typename To, typename From>
[[gnu::always_inline]] inline To same_bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

// GCC 12 splits each __builtin_convertvector into two halves, and a maximum into a comparison and a
// blend.
#if defined(__AVX512F__)

[[gnu::always_inline]] inline Doubles widened(Floats values) {
  return same_bits<Doubles>(_mm512_cvtps_pd(same_bits<__m256>(values)));
}

[[gnu::always_inline]] inline Halves halves_of(Bytes values) {
  return same_bits<Halves>(_mm_cvtepu8_epi16(_mm_cvtsi64_si128(same_bits<long long>(values))));
}

// Decodes IEEE half precision.
[[gnu::always_inline]] inline Floats floats_of(Halves values) {
  return same_bits<Floats>(_mm256_cvtph_ps(same_bits<__m128i>(values)));
}

// max(|a|, b) of b ≥ 0
[[gnu::always_inline]] inline Doubles larger_magnitude(Doubles a, Doubles b) {
  constexpr int kLargerMagnitude = 3;
  constexpr int kWithoutSign = 2 << 2;
  return same_bits<Doubles>(_mm512_range_pd(same_bits<__m512d>(a), same_bits<__m512d>(b),
                                            kLargerMagnitude | kWithoutSign));
}

#elif defined(__AVX2__)

[[gnu::always_inline]] inline Doubles widened(Floats values) {
  return same_bits<Doubles>(_mm256_cvtps_pd(same_bits<__m128>(values)));
}

[[gnu::always_inline]] inline Halves halves_of(Bytes values) {
  const __m128i low = _mm_cvtsi32_si128(same_bits<int>(values));
  return same_bits<Halves>(_mm_cvtsi128_si64(_mm_cvtepu8_epi16(low)));
}

[[gnu::always_inline]] inline Floats floats_of(Halves values) {
  return same_bits<Floats>(_mm_cvtph_ps(_mm_cvtsi64_si128(same_bits<long long>(values))));
}

[[gnu::always_inline]] inline Doubles larger_magnitude(Doubles a, Doubles b) {
  const __m256d sign = _mm256_set1_pd(-0.0);
  return same_bits<Doubles>(
      _mm256_max_pd(_mm256_andnot_pd(sign, same_bits<__m256d>(a)), same_bits<__m256d>(b)));
}

#else

[[gnu::always_inline]] inline Doubles widened(Floats values) {
  return __builtin_convertvector(values, Doubles);
}

[[gnu::always_inline]] inline Words words_of(Halves values) {
  return __builtin_convertvector(values, Words);
}

[[gnu::always_inline]] inline Halves halves_of(Bytes values) {
  return __builtin_convertvector(values, Halves);
}

// Makes a float with the wanted mantissa, whose exponent is off by a constant; multiplying by a
// power of two corrects it, for subnormal numbers too.
[[gnu::always_inline]] inline Floats floats_of(Halves values) {
  const Words word = words_of(values);
  const Words magnitude = word & 0x7fffU;
  const Words finite = same_bits<Words>(same_bits<Floats>(magnitude << 13) * 0x1p112F);
  const Words special = (magnitude << 13) | 0x7f800000U;
  return same_bits<Floats>((magnitude >= 0x7c00U ? special : finite) | (word & 0x8000U) << 16);
}

[[gnu::always_inline]] inline Doubles larger_magnitude(Doubles a, Doubles b) {
  const Doubles size = same_bits<Doubles>(same_bits<Longs>(a) & 0x7fffffffffffffffLL);
  return size > b ? size : b;
}

#endif

// Each type has Bits, the stored element, and Unit: vectors are read as units. A unit is one
// element or several; decode<n> takes the n-th of them.
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
// NOLINTNEXTLINE(bugprone-sizeof-expression): a count of elements in a unit, no pointer is meant.
constexpr std::size_t kApart = sizeof(typename Type::Unit) / sizeof(typename Type::Bits);

// Reads the numbers of the lanes 0, kApart, 2 kApart, ... from `from` on, or of their `kWhich`-th
// neighbours.
template <typename Type, std::size_t kWhich>
[[gnu::always_inline]] inline Doubles read(const char* from) {
  Vector<typename Type::Unit> stored;
  __builtin_memcpy(&stored, from, sizeof stored);
  return Type::template decode<kWhich>(stored);
}

// Decodes the half with the same bits of exponent and mantissa, whose bias is larger by 8.
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

[[gnu::always_inline]] inline void store(const Doubles& sum, double* lanes) {
  __builtin_memcpy(lanes, &sum, sizeof sum);
}

[[gnu::always_inline]] inline void load(const double* lanes, Doubles& sum) {
  __builtin_memcpy(&sum, lanes, sizeof sum);
}

// Adds lanes that are 16 apart, then 8, 4, 2 and 1. The array is ordered by vectors: where
// neighbouring lanes are in two vectors (kNeighbours is 2), elements that are 1 apart in a vector
// are lanes that are 2 apart.
template <std::size_t kNeighbours>
double folded(double (&lanes)[kLanes]) {
  const auto add = [&](std::size_t from, std::size_t distance) {
    for (std::size_t i = from; i < from + distance; ++i) lanes[i] += lanes[i + distance];
  };
  std::size_t distance = kLanes / 2;
  for (; distance >= kWidth * kNeighbours; distance /= 2) add(0, distance);
  for (distance = kWidth / 2; distance > 0; distance /= 2) {
    for (std::size_t which = 0; which < kNeighbours; ++which) add(which * kWidth, distance);
  }
  return kNeighbours == 1 ? lanes[0] : lanes[0] + lanes[kWidth];
}

}  // namespace
}  // namespace ttrace::measure
