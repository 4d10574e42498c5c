// The source of every kernel: each .cpp beside it compiles it for one instruction set. The lanes
// are as many on every machine, so the results are the same bits. Nothing here may be seen by the
// linker: everything is in an anonymous namespace, and no template of the library is used.
#include "compare/kernels/kernel.h"
#include "compare/kernels/vectors.h"

namespace ttrace::compare {
namespace {

// Vectors of each sum that are kept in registers at once: seven sums, and what is needed on the
// way, must fit. Measured with GCC 12.
#ifdef __AVX512F__
constexpr std::size_t kVectors = 2;
#else
constexpr std::size_t kVectors = 1;
#endif
constexpr std::size_t kBlock = kWidth * kVectors;

struct F64 {
  using Bits = double;
  static constexpr bool kExactProducts = false;
  [[gnu::always_inline]] static Doubles decode(Doubles stored) { return stored; }
};

// Products of two values of the narrower types have at most 48 bits: they are exact in double.
struct F32 {
  using Bits = float;
  static constexpr bool kExactProducts = true;
  [[gnu::always_inline]] static Doubles decode(Floats stored) { return widened(stored); }
};

struct F16 {
  using Bits = unsigned short;
  static constexpr bool kExactProducts = true;
  [[gnu::always_inline]] static Doubles decode(Halves stored) { return widened(floats_of(stored)); }
};

struct BF16 {
  using Bits = unsigned short;
  static constexpr bool kExactProducts = true;
  [[gnu::always_inline]] static Doubles decode(Halves stored) {
    return widened(same_bits<Floats>(words_of(stored) << 16));
  }
};

// As a half with the same bits of exponent and mantissa, whose bias is larger by 8.
struct F8E4M3 {
  using Bits = unsigned char;
  static constexpr bool kExactProducts = true;
  [[gnu::always_inline]] static Doubles decode(Bytes stored) {
    const Halves bits = halves_of(stored);
    const Halves magnitude = bits & 0x7f;  // no infinities; all ones is NaN
    const Halves nan = same_bits<Halves>(magnitude == 0x7f) & 0x7c00;
    return widened(floats_of((bits & 0x80) << 8 | magnitude << 7 | nan) * 0x1p8F);
  }
};

struct F8E5M2 {
  using Bits = unsigned char;
  static constexpr bool kExactProducts = true;
  [[gnu::always_inline]] static Doubles decode(Bytes stored) {
    return widened(floats_of(halves_of(stored) << 8));
  }
};

// sum + a · b. Where the product is exact, fused or not gives the same bits.
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

[[gnu::always_inline]] inline Doubles magnitude(Doubles values) {
  return same_bits<Doubles>(same_bits<Longs>(values) & 0x7fffffffffffffffLL);
}

template <std::size_t kCount>
struct Lanes {
  double d2[kCount];
  double d[kCount];
  double r2[kCount];
  double c2[kCount];
  double rc[kCount];
  double largest[kCount];
  long long unequal[kCount];
};

template <typename Sum>
[[gnu::always_inline]] inline void store(const Sum& sum, void* lanes) {
  __builtin_memcpy(lanes, &sum, sizeof sum);
}

struct Sums {
  Doubles d2 = {};
  Doubles d = {};
  Doubles r2 = {};
  Doubles c2 = {};
  Doubles rc = {};
  Doubles largest = {};
  Longs unequal = {};

  template <typename Type>
  [[gnu::always_inline]] void add(const void* reference, const void* candidate) {
    Vector<typename Type::Bits> stored_r;
    Vector<typename Type::Bits> stored_c;
    __builtin_memcpy(&stored_r, reference, sizeof stored_r);
    __builtin_memcpy(&stored_c, candidate, sizeof stored_c);
    const Doubles r = Type::decode(stored_r);
    const Doubles c = Type::decode(stored_c);
    const Doubles difference = c - r;
    d2 += difference * difference;
    d += difference;
    r2 = plus_product<Type>(r2, r, r);
    c2 = plus_product<Type>(c2, c, c);
    rc = plus_product<Type>(rc, r, c);
    largest = larger(magnitude(difference), largest);
    unequal = counted_unequal(unequal, r, c);
  }

  [[gnu::always_inline]] void put(std::size_t first, Lanes<kLanes>& all) const {
    store(d2, all.d2 + first);
    store(d, all.d + first);
    store(r2, all.r2 + first);
    store(c2, all.c2 + first);
    store(rc, all.rc + first);
    store(largest, all.largest + first);
    store(unequal, all.unequal + first);
  }
};

// Lanes `first` to `first + kBlock`.
template <typename Type>
void sum_lanes(const void* reference, const void* candidate, std::size_t count, std::size_t first,
               Lanes<kLanes>& all) {
  using Bits = typename Type::Bits;
  const char* r = static_cast<const char*>(reference) + first * sizeof(Bits);
  const char* c = static_cast<const char*>(candidate) + first * sizeof(Bits);
  Sums sums[kVectors];
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t at = (i + v * kWidth) * sizeof(Bits);
      sums[v].add<Type>(r + at, c + at);
    }
  }
  if (i < count) {
    // Filled up with zeros, which add nothing to any lane.
    Bits rest_r[kLanes] = {};
    Bits rest_c[kLanes] = {};
    const std::size_t at = i * sizeof(Bits);
    __builtin_memcpy(rest_r, static_cast<const char*>(reference) + at, (count - i) * sizeof(Bits));
    __builtin_memcpy(rest_c, static_cast<const char*>(candidate) + at, (count - i) * sizeof(Bits));
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums[v].add<Type>(rest_r + first + v * kWidth, rest_c + first + v * kWidth);
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) sums[v].put(first + v * kWidth, all);
}

template <typename Number>
Number folded(Number (&lanes)[kLanes]) {
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

// Σ r² alone, in the very lanes and order of sum_of.
template <typename Type>
double squares_of(const void* reference, std::size_t count) {
  using Bits = typename Type::Bits;
  constexpr std::size_t kAtOnce = 4;
  double lanes[kLanes];
  for (std::size_t first = 0; first < kLanes; first += kAtOnce * kWidth) {
    Doubles r2[kAtOnce] = {};
    const auto add = [&](const void* from) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kAtOnce; ++v) {
        Vector<Bits> stored;
        __builtin_memcpy(&stored, static_cast<const char*>(from) + v * sizeof stored,
                         sizeof stored);
        const Doubles r = Type::decode(stored);
        r2[v] = plus_product<Type>(r2[v], r, r);
      }
    };
    const char* r = static_cast<const char*>(reference);
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) add(r + (i + first) * sizeof(Bits));
    if (i < count) {
      Bits rest[kLanes] = {};
      __builtin_memcpy(rest, r + i * sizeof(Bits), (count - i) * sizeof(Bits));
      add(rest + first);
    }
    for (std::size_t v = 0; v < kAtOnce; ++v) store(r2[v], lanes + first + v * kWidth);
  }
  return folded(lanes);
}

template <typename Type>
void sum_of(const void* reference, const void* candidate, std::size_t count, TileSums& sums) {
  // Much of what is compared is the same to the bit: inputs, parameters, all of a healthy run that
  // only its data divides.
  if (__builtin_memcmp(reference, candidate, count * sizeof(typename Type::Bits)) == 0) {
    sums = {};
    sums.r2 = sums.c2 = sums.rc = squares_of<Type>(reference, count);
    return;
  }
  Lanes<kLanes> lanes;
  for (std::size_t first = 0; first < kLanes; first += kBlock) {
    sum_lanes<Type>(reference, candidate, count, first, lanes);
  }
  sums.largest = 0;
  for (const double size : lanes.largest) sums.largest = size > sums.largest ? size : sums.largest;
  sums.d2 = folded(lanes.d2);
  sums.d = folded(lanes.d);
  sums.r2 = folded(lanes.r2);
  sums.c2 = folded(lanes.c2);
  sums.rc = folded(lanes.rc);
  sums.unequal = static_cast<std::size_t>(folded(lanes.unequal));
}

void sum_any(Stored type, const void* reference, const void* candidate, std::size_t count,
             TileSums& sums) {
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
}  // namespace ttrace::compare
