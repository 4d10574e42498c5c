// The sums over pairs, in vectors of lanes. Part of kernel_source.cpp: the linker must not see it.
#pragma once

#include "measure/cpu/kernel.h"
#include "measure/cpu/vectors.h"

namespace ttrace::measure {
namespace {

// Number of vectors of each sum that stay in registers: six sums and temporaries must fit. Measured
// with GCC 12.
#if defined(__AVX512F__)
template <typename Bits>
constexpr std::size_t kVectors = 2;
#elif defined(__AVX2__)
template <typename Bits>
constexpr std::size_t kVectors = sizeof(Bits) == 2 || sizeof(Bits) == 4 ? 2 : 1;
#else
template <typename Bits>
constexpr std::size_t kVectors = 1;
#endif
template <typename Type>
constexpr std::size_t kBlock = kWidth * kVectors<typename Type::Bits>;

// Returns sum + a · b. Where the product is exact, a fused operation gives the same bits.
template <typename Type>
[[gnu::always_inline]] inline Doubles plus_product(Doubles sum, Doubles a, Doubles b) {
#ifdef __FMA__
  if constexpr (Type::kExactProducts) {
    for (std::size_t i = 0; i < kWidth; ++i) sum[i] = __builtin_fma(a[i], b[i], sum[i]);
    return sum;
  }
#endif
  return sum + a * b;
}

template <std::size_t kCount>
struct PairLanes {
  double d2[kCount];
  double d[kCount];
  double r2[kCount];
  double c2[kCount];
  double rc[kCount];
  double largest[kCount];
};

struct Sums {
  Doubles d2 = {};
  Doubles d = {};
  Doubles r2 = {};
  Doubles c2 = {};
  Doubles rc = {};
  Doubles largest = {};

  template <typename Type>
  [[gnu::always_inline]] void add(Doubles r, Doubles c) {
    const Doubles difference = c - r;
    d2 += difference * difference;
    d += difference;
    r2 = plus_product<Type>(r2, r, r);
    c2 = plus_product<Type>(c2, c, c);
    rc = plus_product<Type>(rc, r, c);
    largest = larger_magnitude(difference, largest);
  }

  [[gnu::always_inline]] void get(std::size_t first, const PairLanes<kLanes>& all) {
    load(all.d2 + first, d2);
    load(all.d + first, d);
    load(all.r2 + first, r2);
    load(all.c2 + first, c2);
    load(all.rc + first, rc);
    load(all.largest + first, largest);
  }

  [[gnu::always_inline]] void put(std::size_t first, PairLanes<kLanes>& all) const {
    store(d2, all.d2 + first);
    store(d, all.d + first);
    store(r2, all.r2 + first);
    store(c2, all.c2 + first);
    store(rc, all.rc + first);
    store(largest, all.largest + first);
  }
};

template <typename Type>
[[gnu::always_inline]] inline void fold(PairLanes<kLanes>& lanes, TileSums& sums) {
  sums.largest = 0;
  for (const double size : lanes.largest) sums.largest = size > sums.largest ? size : sums.largest;
  sums.d2 = folded<kApart<Type>>(lanes.d2);
  sums.d = folded<kApart<Type>>(lanes.d);
  sums.r2 = folded<kApart<Type>>(lanes.r2);
  sums.c2 = folded<kApart<Type>>(lanes.c2);
  sums.rc = folded<kApart<Type>>(lanes.rc);
}

template <typename Visit>
[[gnu::always_inline]] inline void visit_type(StoredType type, Visit visit) {
  switch (type) {
    case StoredType::kF64:
      return visit(F64{});
    case StoredType::kF32:
      return visit(F32{});
    case StoredType::kF16:
      return visit(F16{});
    case StoredType::kBF16:
      return visit(BF16{});
    case StoredType::kF8E4M3:
      return visit(F8E4M3{});
    case StoredType::kF8E5M2:
      return visit(F8E5M2{});
  }
}

}  // namespace
}  // namespace ttrace::measure
