// Counts unequal pairs by their stored bits: a register holds more of them than decoded numbers.
// Part of kernel_source.cpp: the linker must not see it.
#pragma once

#include "measure/cpu/kernel.h"
#include "measure/cpu/vectors.h"

namespace ttrace::measure {
namespace {

// For finite values: two are equal if their bits are the same or both are zeros. add() takes
// kCountedAtOnce pairs.
template <typename Bits>
constexpr std::size_t kCountedAtOnce = sizeof(Bits) == sizeof(double) ? kWidth : kLanes;

#if defined(__AVX512F__)

[[gnu::always_inline]] inline unsigned which_unequal(__m512d a, __m512d b) {
  return _mm512_cmp_pd_mask(a, b, _CMP_NEQ_UQ);
}

[[gnu::always_inline]] inline unsigned which_unequal(__m512 a, __m512 b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ);
}

// Elements of 16 bits.
[[gnu::always_inline]] inline unsigned which_unequal(__m512i a, __m512i b) {
  return _mm512_mask_test_epi16_mask(_mm512_cmpneq_epi16_mask(a, b), _mm512_or_si512(a, b),
                                     _mm512_set1_epi16(0x7fff));
}

// Elements of 8 bits.
[[gnu::always_inline]] inline unsigned which_unequal(__m256i a, __m256i b) {
  return _mm256_mask_test_epi8_mask(_mm256_cmpneq_epi8_mask(a, b), _mm256_or_si256(a, b),
                                    _mm256_set1_epi8(0x7f));
}

template <typename Bits>
struct RegisterOf;
template <>
struct RegisterOf<double> {
  using Type = __m512d;
};
template <>
struct RegisterOf<float> {
  using Type = __m512;
};
template <>
struct RegisterOf<unsigned short> {
  using Type = __m512i;
};
template <>
struct RegisterOf<unsigned char> {
  using Type = __m256i;
};

template <typename Bits>
struct Unequal {
  std::size_t count = 0;

  [[gnu::always_inline]] void add(const char* reference, const char* candidate) {
    using Register = typename RegisterOf<Bits>::Type;
#pragma GCC unroll 8
    for (std::size_t at = 0; at < kCountedAtOnce<Bits> * sizeof(Bits); at += sizeof(Register)) {
      Register a;
      Register b;
      __builtin_memcpy(&a, reference + at, sizeof a);
      __builtin_memcpy(&b, candidate + at, sizeof b);
      count += static_cast<std::size_t>(__builtin_popcount(which_unequal(a, b)));
    }
  }

  [[gnu::always_inline]] std::size_t total() const { return count; }
};

// Counts pairs of decoded numbers.
struct UnequalNumbers {
  std::size_t count = 0;

  [[gnu::always_inline]] void add(Doubles a, Doubles b) {
    const unsigned which = which_unequal(same_bits<__m512d>(a), same_bits<__m512d>(b));
    count += static_cast<std::size_t>(__builtin_popcount(which));
  }

  [[gnu::always_inline]] std::size_t total() const { return count; }
};

#else

template <typename T>
using Full [[gnu::vector_size(kWidth * sizeof(double))]] = T;

[[gnu::always_inline]] inline Full<long long> which_equal(Full<double> a, Full<double> b) {
  return a == b;
}

[[gnu::always_inline]] inline Full<int> which_equal(Full<float> a, Full<float> b) { return a == b; }

[[gnu::always_inline]] inline Full<short> which_equal(Full<unsigned short> a,
                                                      Full<unsigned short> b) {
  return (a == b) | (((a | b) & 0x7fff) == 0);
}

// Elements of 8 bits become the upper half of 16 bits, so that no lane's count overflows.
using HalfFull [[gnu::vector_size(kWidth * sizeof(double) / 2)]] = unsigned char;

[[gnu::always_inline]] inline Full<short> which_equal(HalfFull a, HalfFull b) {
  return which_equal(__builtin_convertvector(a, Full<unsigned short>) << 8,
                     __builtin_convertvector(b, Full<unsigned short>) << 8);
}

template <typename Bits>
struct CountedAs {
  using Register = Full<Bits>;
  using Lane = short;
};
template <>
struct CountedAs<double> {
  using Register = Full<double>;
  using Lane = long long;
};
template <>
struct CountedAs<float> {
  using Register = Full<float>;
  using Lane = int;
};
template <>
struct CountedAs<unsigned char> {
  using Register = HalfFull;
  using Lane = short;
};

template <typename Bits>
struct Unequal {
  using Register = typename CountedAs<Bits>::Register;
  using Lane = typename CountedAs<Bits>::Lane;
  std::size_t pairs = 0;
  Full<Lane> minus_equal = {};

  [[gnu::always_inline]] void add(const char* reference, const char* candidate) {
    for (std::size_t at = 0; at < kCountedAtOnce<Bits> * sizeof(Bits); at += sizeof(Register)) {
      Register a;
      Register b;
      __builtin_memcpy(&a, reference + at, sizeof a);
      __builtin_memcpy(&b, candidate + at, sizeof b);
      minus_equal += which_equal(a, b);
    }
    pairs += kCountedAtOnce<Bits>;
  }

  [[gnu::always_inline]] std::size_t total() const {
    Lane lanes[sizeof minus_equal / sizeof(Lane)];
    __builtin_memcpy(lanes, &minus_equal, sizeof lanes);
    long long all = 0;
    for (const Lane lane : lanes) all -= lane;
    return pairs - static_cast<std::size_t>(all);
  }
};

struct UnequalNumbers {
  std::size_t pairs = 0;
  Longs minus_equal = {};

  [[gnu::always_inline]] void add(Doubles a, Doubles b) {
    minus_equal += same_bits<Longs>(a == b);
    pairs += kWidth;
  }

  [[gnu::always_inline]] std::size_t total() const {
    long long all = 0;
    for (std::size_t i = 0; i < kWidth; ++i) all -= minus_equal[i];
    return pairs - static_cast<std::size_t>(all);
  }
};

#endif

}  // namespace
}  // namespace ttrace::measure
