// The source of every kernel, compiled once per instruction set: TTRACE_KERNEL names the kernel and
// TTRACE_ISA its instruction set. The number of lanes is the same on every machine, so the results
// have the same bits. The linker must see only the kernel: everything else is in an anonymous
// namespace and uses no template of the library.
#include "measure/cpu/kernel.h"
#include "measure/cpu/unequal.h"
#include "measure/cpu/update_kernel.h"
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
struct Lanes {
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

  template <typename Type, std::size_t kWhich>
  [[gnu::always_inline]] void add(const char* reference, const char* candidate) {
    const Doubles r = read<Type, kWhich>(reference);
    const Doubles c = read<Type, kWhich>(candidate);
    const Doubles difference = c - r;
    d2 += difference * difference;
    d += difference;
    r2 = plus_product<Type>(r2, r, r);
    c2 = plus_product<Type>(c2, c, c);
    rc = plus_product<Type>(rc, r, c);
    largest = larger_magnitude(difference, largest);
  }

  [[gnu::always_inline]] void put(std::size_t first, Lanes<kLanes>& all) const {
    store(d2, all.d2 + first);
    store(d, all.d + first);
    store(r2, all.r2 + first);
    store(c2, all.c2 + first);
    store(rc, all.rc + first);
    store(largest, all.largest + first);
  }
};

struct CountNone {
  [[gnu::always_inline]] void add(const char*, const char*) {}
};

// Computes the sums of kBlock lanes: `first + kWhich` and those that follow, kApart apart.
// `unequal` counts all pairs.
template <typename Type, std::size_t kWhich, typename Count>
void sum_lanes(const void* reference, const void* candidate, std::size_t count, std::size_t first,
               Lanes<kLanes>& all, Count& unequal) {
  using Bits = typename Type::Bits;
  constexpr std::size_t kStep = kWidth * kApart<Type>;
  const char* r = static_cast<const char*>(reference);
  const char* c = static_cast<const char*>(candidate);
  Sums sums[kVectors<Bits>];
  Count counted = unequal;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    if constexpr (kCountedAtOnce<Bits> == kLanes) {
      counted.add(r + i * sizeof(Bits), c + i * sizeof(Bits));
    }
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors<Bits>; ++v) {
      const std::size_t at = (i + first + v * kStep) * sizeof(Bits);
      sums[v].template add<Type, kWhich>(r + at, c + at);
      if constexpr (kCountedAtOnce<Bits> == kWidth) counted.add(r + at, c + at);
    }
  }
  if (i < count) {
    // Filled up with zeros, which add nothing to any lane.
    char rest_r[kLanes * sizeof(Bits)] = {};
    char rest_c[kLanes * sizeof(Bits)] = {};
    const std::size_t at = i * sizeof(Bits);
    __builtin_memcpy(rest_r, r + at, (count - i) * sizeof(Bits));
    __builtin_memcpy(rest_c, c + at, (count - i) * sizeof(Bits));
    if constexpr (kCountedAtOnce<Bits> == kLanes) counted.add(rest_r, rest_c);
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors<Bits>; ++v) {
      const std::size_t from = (first + v * kStep) * sizeof(Bits);
      sums[v].template add<Type, kWhich>(rest_r + from, rest_c + from);
      if constexpr (kCountedAtOnce<Bits> == kWidth) counted.add(rest_r + from, rest_c + from);
    }
  }
  for (std::size_t v = 0; v < kVectors<Bits>; ++v) {
    sums[v].put(first + v * kStep + kWhich * kWidth, all);
  }
  unequal = counted;
}

// Computes Σ r² alone, in the lanes and the order of sum_of.
template <typename Type, std::size_t kWhich>
[[gnu::always_inline]] inline void sum_squares(const char* r, std::size_t count,
                                               double (&lanes)[kLanes]) {
  using Bits = typename Type::Bits;
  constexpr std::size_t kAtOnce = 4 / kApart<Type>;
  constexpr std::size_t kStep = kWidth * kApart<Type>;
  for (std::size_t first = 0; first < kLanes; first += kAtOnce * kStep) {
    Doubles r2[kAtOnce] = {};
    const auto add = [&](const char* from) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kAtOnce; ++v) {
        const Doubles value = read<Type, kWhich>(from + v * kStep * sizeof(Bits));
        r2[v] = plus_product<Type>(r2[v], value, value);
      }
    };
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) add(r + (i + first) * sizeof(Bits));
    if (i < count) {
      char rest[kLanes * sizeof(Bits)] = {};
      __builtin_memcpy(rest, r + i * sizeof(Bits), (count - i) * sizeof(Bits));
      add(rest + first * sizeof(Bits));
    }
    for (std::size_t v = 0; v < kAtOnce; ++v) {
      store(r2[v], lanes + first + v * kStep + kWhich * kWidth);
    }
  }
}

template <typename Type>
double squares_of(const void* reference, std::size_t count) {
  const char* r = static_cast<const char*>(reference);
  double lanes[kLanes];
  sum_squares<Type, 0>(r, count, lanes);
  if constexpr (kApart<Type> == 2) sum_squares<Type, 1>(r, count, lanes);
  return folded<kApart<Type>>(lanes);
}

template <typename Type>
void sum_of(const void* reference, const void* candidate, std::size_t count, TileSums& sums) {
  // Many tensors are equal to the bit: inputs, parameters, and everything in a healthy run that is
  // only data parallel.
  if (__builtin_memcmp(reference, candidate, count * sizeof(typename Type::Bits)) == 0) {
    sums = {};
    sums.r2 = sums.c2 = sums.rc = squares_of<Type>(reference, count);
    return;
  }
  Lanes<kLanes> lanes;
  Unequal<typename Type::Bits> unequal;
  CountNone none;
  sum_lanes<Type, 0>(reference, candidate, count, 0, lanes, unequal);
  if constexpr (kApart<Type> == 2) sum_lanes<Type, 1>(reference, candidate, count, 0, lanes, none);
  constexpr std::size_t kPass = kBlock<Type> * kApart<Type>;
  for (std::size_t first = kPass; first < kLanes; first += kPass) {
    if constexpr (kCountedAtOnce<typename Type::Bits> == kWidth) {
      sum_lanes<Type, 0>(reference, candidate, count, first, lanes, unequal);
    } else {
      sum_lanes<Type, 0>(reference, candidate, count, first, lanes, none);
    }
    if constexpr (kApart<Type> == 2) {
      sum_lanes<Type, 1>(reference, candidate, count, first, lanes, none);
    }
  }
  sums.largest = 0;
  for (const double size : lanes.largest) sums.largest = size > sums.largest ? size : sums.largest;
  sums.d2 = folded<kApart<Type>>(lanes.d2);
  sums.d = folded<kApart<Type>>(lanes.d);
  sums.r2 = folded<kApart<Type>>(lanes.r2);
  sums.c2 = folded<kApart<Type>>(lanes.c2);
  sums.rc = folded<kApart<Type>>(lanes.rc);
  sums.unequal = unequal.total();
}

void sum_any(Stored type, const void* reference, const void* candidate, std::size_t count,
             TileSums& sums) {
  if (count == 0) {  // the addresses may be null
    sums = {};
    return;
  }
  switch (type) {
    case Stored::kF64:
      return sum_of<F64>(reference, candidate, count, sums);
    case Stored::kF32:
      return sum_of<F32>(reference, candidate, count, sums);
    case Stored::kF16:
      return sum_of<F16>(reference, candidate, count, sums);
    case Stored::kBF16:
      return sum_of<BF16>(reference, candidate, count, sums);
    case Stored::kF8E4M3:
      return sum_of<F8E4M3>(reference, candidate, count, sums);
    case Stored::kF8E5M2:
      return sum_of<F8E5M2>(reference, candidate, count, sums);
  }
}

}  // namespace

const Kernel TTRACE_KERNEL{TTRACE_ISA, sum_any, replay_tile, judge_tile};

}  // namespace ttrace::measure
