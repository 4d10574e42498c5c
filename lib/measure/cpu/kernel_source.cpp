// The source of every kernel, compiled once per instruction set: TTRACE_KERNEL names the kernel and
// TTRACE_ISA its instruction set. The number of lanes is the same on every machine, so the results
// have the same bits. The linker must see only the kernel: everything else is in an anonymous
// namespace and uses no template of the library.
#include "measure/cpu/kernel.h"
#include "measure/cpu/scattered_tiles.h"
#include "measure/cpu/sums.h"
#include "measure/cpu/unequal.h"
#include "measure/cpu/update_kernel.h"
#include "measure/cpu/vectors.h"

namespace ttrace::measure {
namespace {

struct CountNone {
  [[gnu::always_inline]] void add(const char*, const char*) {}
};

// Computes the sums of kBlock lanes: `first + kWhich` and those that follow, kApart apart.
// `unequal` counts all pairs.
template <typename Type, std::size_t kWhich, typename Count>
void sum_lanes(const void* reference, const void* candidate, std::size_t count, std::size_t first,
               PairLanes<kLanes>& all, Count& unequal) {
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
      sums[v].template add<Type>(read<Type, kWhich>(r + at), read<Type, kWhich>(c + at));
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
      sums[v].template add<Type>(read<Type, kWhich>(rest_r + from),
                                 read<Type, kWhich>(rest_c + from));
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
  PairLanes<kLanes> lanes;
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
  fold<Type>(lanes, sums);
  sums.unequal = unequal.total();
}

void sum_any(StoredType type, const void* reference, const void* candidate, std::size_t count,
             TileSums& sums) {
  if (count == 0) {  // the addresses may be null
    sums = {};
    return;
  }
  visit_type(type, [&](auto of) { sum_of<decltype(of)>(reference, candidate, count, sums); });
}

void sum_placed_any(StoredType type, const PlacedValues& reference, const PlacedValues& candidate,
                    std::size_t count, TileSums& sums) {
  const bool scaled = reference.scale != 1 || candidate.scale != 1;
  visit_type(type, [&](auto of) {
    using Type = decltype(of);
    scaled ? sum_placed<Type, true>(reference, candidate, count, sums)
           : sum_placed<Type, false>(reference, candidate, count, sums);
  });
}

}  // namespace

const Kernel TTRACE_KERNEL{TTRACE_ISA, sum_any, sum_placed_any, replay_tile, judge_tile};

}  // namespace ttrace::measure
