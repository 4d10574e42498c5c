// The source of every kernel: each .cpp beside it compiles it for one instruction set. The lanes
// are as many on every machine, so the results are the same bits. Nothing here may be seen by the
// linker: everything is in an anonymous namespace, and no template of the library is used.
#include "compare/kernels/kernel.h"

namespace ttrace::compare {
namespace {

// Lanes whose sums are kept in registers while a tile is gone through; measured with GCC 12.
#ifdef __AVX512F__
constexpr std::size_t kBlock = 32;
#else
constexpr std::size_t kBlock = 16;
#endif

float float_of_bits(unsigned bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// A float whose mantissa has the wanted bits and whose exponent is off by a constant: the product
// with a power of two puts it right, subnormal numbers included.
double rebiased(unsigned magnitude, float power, bool special, unsigned sign) {
  const float finite = float_of_bits(magnitude) * power;
  const float value = special ? float_of_bits(magnitude | 0x7f800000U) : finite;
  return sign != 0 ? -static_cast<double>(value) : static_cast<double>(value);
}

template <typename T>
struct Unaligned {
  using Type [[gnu::aligned(1), gnu::may_alias]] = T;
};

struct F64 {
  using Bits = double;
  static double decode(double stored) { return stored; }
};

struct F32 {
  using Bits = float;
  static double decode(float stored) { return stored; }
};

struct F16 {
  using Bits = unsigned short;
  static double decode(Bits stored) {
    const unsigned magnitude = stored & 0x7fffU;
    return rebiased(magnitude << 13, 0x1p112F, magnitude >= 0x7c00U, stored & 0x8000U);
  }
};

struct BF16 {
  using Bits = unsigned short;
  static double decode(Bits stored) { return float_of_bits(static_cast<unsigned>(stored) << 16); }
};

struct F8E4M3 {
  using Bits = unsigned char;
  static double decode(Bits stored) {
    const unsigned magnitude = stored & 0x7fU;  // no infinities; all ones is NaN
    return rebiased(magnitude << 20, 0x1p120F, magnitude == 0x7fU, stored & 0x80U);
  }
};

struct F8E5M2 {
  using Bits = unsigned char;
  static double decode(Bits stored) {
    return F16::decode(static_cast<unsigned short>(stored << 8));
  }
};

template <std::size_t kCount>
struct Lanes {
  double d2[kCount] = {};
  double d[kCount] = {};
  double r2[kCount] = {};
  double c2[kCount] = {};
  double rc[kCount] = {};
  double largest[kCount] = {};
  long long unequal[kCount] = {};
};

template <typename Type, typename Bits>
void add_group(const Bits* reference, const Bits* candidate, Lanes<kBlock>& lanes) {
  for (std::size_t lane = 0; lane < kBlock; ++lane) {
    const double r = Type::decode(reference[lane]);
    const double c = Type::decode(candidate[lane]);
    const double difference = c - r;
    const double size = __builtin_fabs(difference);
    lanes.d2[lane] += difference * difference;
    lanes.d[lane] += difference;
    lanes.r2[lane] += r * r;
    lanes.c2[lane] += c * c;
    lanes.rc[lane] += r * c;
    lanes.largest[lane] = size > lanes.largest[lane] ? size : lanes.largest[lane];
    lanes.unequal[lane] += c != r ? 1 : 0;
  }
}

// Lanes `first` to `first + kBlock`.
template <typename Type>
void sum_lanes(const void* reference, const void* candidate, std::size_t count, std::size_t first,
               Lanes<kLanes>& all) {
  using Bits = typename Type::Bits;
  using Loose = typename Unaligned<Bits>::Type;
  const Loose* r = static_cast<const Loose*>(reference);
  const Loose* c = static_cast<const Loose*>(candidate);
  Lanes<kBlock> lanes;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) add_group<Type>(r + i + first, c + i + first, lanes);
  if (i < count) {
    // Filled up with zeros, which add nothing to any lane.
    Bits rest_r[kLanes] = {};
    Bits rest_c[kLanes] = {};
    __builtin_memcpy(rest_r, r + i, (count - i) * sizeof(Bits));
    __builtin_memcpy(rest_c, c + i, (count - i) * sizeof(Bits));
    add_group<Type>(rest_r + first, rest_c + first, lanes);
  }
  for (std::size_t lane = 0; lane < kBlock; ++lane) {
    all.d2[first + lane] = lanes.d2[lane];
    all.d[first + lane] = lanes.d[lane];
    all.r2[first + lane] = lanes.r2[lane];
    all.c2[first + lane] = lanes.c2[lane];
    all.rc[first + lane] = lanes.rc[lane];
    all.largest[first + lane] = lanes.largest[lane];
    all.unequal[first + lane] = lanes.unequal[lane];
  }
}

template <typename Number>
Number folded(Number (&lanes)[kLanes]) {
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

template <typename Type>
void sum_of(const void* reference, const void* candidate, std::size_t count, TileSums& sums) {
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
