// The operations on vectors that the formula of an update needs (optimizer/update_formula.h). Part
// of kernel_source.cpp: the linker must not see it.
#pragma once

#include "measure/cpu/vectors.h"

#if defined(__SSE2__) && !defined(__AVX2__)
#include <emmintrin.h>
#endif

namespace ttrace::measure {
namespace {

struct VectorMath {
  using Number = Doubles;

#if defined(__AVX512F__)
  using Mask = unsigned char;  // one bit per lane

  [[gnu::always_inline]] static __m512d plain(Number a) { return same_bits<__m512d>(a); }
  [[gnu::always_inline]] static Number root(Number a) {
    return same_bits<Number>(_mm512_sqrt_pd(plain(a)));
  }
  [[gnu::always_inline]] static Number magnitude(Number a) {
    return same_bits<Number>(_mm512_abs_pd(plain(a)));
  }
  [[gnu::always_inline]] static Mask less(Number a, Number b) {
    return _mm512_cmp_pd_mask(plain(a), plain(b), _CMP_LT_OQ);
  }
  [[gnu::always_inline]] static Mask not_less(Number a, Number b) {
    return _mm512_cmp_pd_mask(plain(a), plain(b), _CMP_NLT_UQ);
  }
  [[gnu::always_inline]] static Mask not_at_most(Number a, Number b) {
    return _mm512_cmp_pd_mask(plain(a), plain(b), _CMP_NLE_UQ);
  }
  [[gnu::always_inline]] static Number choose(Mask mask, Number a, Number b) {
    return same_bits<Number>(_mm512_mask_blend_pd(mask, plain(b), plain(a)));
  }
  [[gnu::always_inline]] static bool any(Mask mask) { return mask != 0; }

#else
  using Mask = Longs;

#if defined(__AVX2__)
  [[gnu::always_inline]] static __m256d plain(Number a) { return same_bits<__m256d>(a); }
  [[gnu::always_inline]] static Number root(Number a) {
    return same_bits<Number>(_mm256_sqrt_pd(plain(a)));
  }
  [[gnu::always_inline]] static Number choose(Mask mask, Number a, Number b) {
    return same_bits<Number>(_mm256_blendv_pd(plain(b), plain(a), same_bits<__m256d>(mask)));
  }
  [[gnu::always_inline]] static bool any(Mask mask) {
    return _mm256_movemask_pd(same_bits<__m256d>(mask)) != 0;
  }
#else
#if defined(__SSE2__)
  [[gnu::always_inline]] static Number root(Number a) {
    return same_bits<Number>(_mm_sqrt_pd(same_bits<__m128d>(a)));
  }
  [[gnu::always_inline]] static bool any(Mask mask) {
    return _mm_movemask_pd(same_bits<__m128d>(mask)) != 0;
  }
#else
  [[gnu::always_inline]] static Number root(Number a) {
    for (std::size_t i = 0; i < kWidth; ++i) a[i] = __builtin_sqrt(a[i]);
    return a;
  }
  [[gnu::always_inline]] static bool any(Mask mask) {
    bool found = false;
    for (std::size_t i = 0; i < kWidth; ++i) found = found || mask[i] != 0;
    return found;
  }
#endif
  [[gnu::always_inline]] static Number choose(Mask mask, Number a, Number b) {
    return same_bits<Number>((mask & same_bits<Mask>(a)) | (~mask & same_bits<Mask>(b)));
  }
#endif
  [[gnu::always_inline]] static Number magnitude(Number a) {
    return same_bits<Number>(same_bits<Longs>(a) & 0x7fffffffffffffffLL);
  }
  [[gnu::always_inline]] static Mask less(Number a, Number b) { return a < b; }
  [[gnu::always_inline]] static Mask not_less(Number a, Number b) { return ~(a < b); }
  [[gnu::always_inline]] static Mask not_at_most(Number a, Number b) { return ~(a <= b); }
#endif

  [[gnu::always_inline]] static Mask both(Mask a, Mask b) { return a & b; }
  [[gnu::always_inline]] static Mask either(Mask a, Mask b) { return a | b; }

  // a > 0 ? value : 0
  [[gnu::always_inline]] static Number if_positive(Number a, double value) {
#if defined(__AVX512F__)
    return same_bits<Number>(_mm512_maskz_mov_pd(less(Number{}, a), plain(Number{} + value)));
#else
    return same_bits<Number>((a > Number{}) & same_bits<Mask>(Number{} + value));
#endif
  }
};

}  // namespace
}  // namespace ttrace::measure
