// Sums over tiles whose values are scattered or scaled: the numbers go into the lanes straight from
// where they are stored. Gathering and decoding them first takes longer than adding them up. Part
// of kernel_source.cpp: the linker must not see it.
#pragma once

#include <type_traits>

#include "measure/cpu/kernel.h"
#include "measure/cpu/sums.h"
#include "measure/cpu/unequal.h"
#include "measure/cpu/vectors.h"

namespace ttrace::measure {
namespace {

// Elements that are summed at a time, one block of lanes after the other: so few that both sides
// stay in the first-level cache.
constexpr std::size_t kElementsAtOnce = 512;

// Products of scaled values are not exact.
template <typename Type>
struct ScaledOf : Type {
  static constexpr bool kExactProducts = false;
};

// One side of a tile.
template <typename Type, bool kScaled>
class Placed {
 public:
  using Bits = typename Type::Bits;

  explicit Placed(const PlacedValues& placed)
      : values_(static_cast<const char*>(placed.values)),
        offsets_(placed.offsets),
        scale_(Doubles{} + placed.scale) {}

  // The numbers of a vector of lanes from element `at` on.
  template <std::size_t kWhich>
  [[gnu::always_inline]] Doubles numbers(std::size_t at) const {
    return scaled(read<Type, kWhich>(values_ + offsets_[at / kPlacedTogether] +
                                     at % kPlacedTogether * sizeof(Bits)));
  }

  // The same numbers from `rest`, which copy_rest() has filled.
  template <std::size_t kWhich>
  [[gnu::always_inline]] Doubles numbers(const char* rest) const {
    return scaled(read<Type, kWhich>(rest));
  }

  // Copies the `count` < kLanes elements from `at` on.
  void copy_rest(std::size_t at, std::size_t count, char* rest) const {
    for (std::size_t done = 0; done < count; done += kPlacedTogether) {
      const std::size_t here = count - done < kPlacedTogether ? count - done : kPlacedTogether;
      __builtin_memcpy(rest + done * sizeof(Bits),
                       values_ + offsets_[(at + done) / kPlacedTogether], here * sizeof(Bits));
    }
  }

 private:
  [[gnu::always_inline]] Doubles scaled(Doubles stored) const {
    return kScaled ? stored * scale_ : stored;
  }

  const char* values_;
  const std::size_t* offsets_;
  Doubles scale_;
};

// Adds the elements from `begin` to `end` to the sums of kBlock lanes: `first` + kWhich and those
// that follow, kApart apart.
template <typename Type, std::size_t kWhich, bool kScaled>
void add_placed_lanes(const Placed<Type, kScaled>& reference,
                      const Placed<Type, kScaled>& candidate, std::size_t begin, std::size_t end,
                      std::size_t first, PairLanes<kLanes>& all, UnequalNumbers& unequal) {
  using Bits = typename Type::Bits;
  using Products = std::conditional_t<kScaled, ScaledOf<Type>, Type>;
  constexpr std::size_t kStep = kWidth * kApart<Type>;
  static_assert(kPlacedTogether % kStep == 0, "a vector lies within one group");
  Sums sums[kVectors<Bits>];
  for (std::size_t v = 0; v < kVectors<Bits>; ++v) {
    sums[v].get(first + v * kStep + kWhich * kWidth, all);
  }
  UnequalNumbers counted = unequal;
  std::size_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors<Bits>; ++v) {
      const std::size_t at = i + first + v * kStep;
      const Doubles r = reference.template numbers<kWhich>(at);
      const Doubles c = candidate.template numbers<kWhich>(at);
      sums[v].template add<Products>(r, c);
      counted.add(r, c);
    }
  }
  if (i < end) {
    // Filled up with zeros, which add nothing to any lane.
    char rest_r[kLanes * sizeof(Bits)] = {};
    char rest_c[kLanes * sizeof(Bits)] = {};
    reference.copy_rest(i, end - i, rest_r);
    candidate.copy_rest(i, end - i, rest_c);
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors<Bits>; ++v) {
      const std::size_t from = (first + v * kStep) * sizeof(Bits);
      const Doubles r = reference.template numbers<kWhich>(rest_r + from);
      const Doubles c = candidate.template numbers<kWhich>(rest_c + from);
      sums[v].template add<Products>(r, c);
      counted.add(r, c);
    }
  }
  for (std::size_t v = 0; v < kVectors<Bits>; ++v) {
    sums[v].put(first + v * kStep + kWhich * kWidth, all);
  }
  unequal = counted;
}

template <typename Type, bool kScaled>
void sum_placed(const PlacedValues& reference, const PlacedValues& candidate, std::size_t count,
                TileSums& sums) {
  const Placed<Type, kScaled> r(reference);
  const Placed<Type, kScaled> c(candidate);
  PairLanes<kLanes> lanes = {};
  UnequalNumbers unequal;
  constexpr std::size_t kPass = kBlock<Type> * kApart<Type>;
  for (std::size_t begin = 0; begin < count; begin += kElementsAtOnce) {
    const std::size_t end = count - begin < kElementsAtOnce ? count : begin + kElementsAtOnce;
    for (std::size_t first = 0; first < kLanes; first += kPass) {
      add_placed_lanes<Type, 0>(r, c, begin, end, first, lanes, unequal);
      if constexpr (kApart<Type> == 2) {
        add_placed_lanes<Type, 1>(r, c, begin, end, first, lanes, unequal);
      }
    }
  }
  fold<Type>(lanes, sums);
  sums.unequal = unequal.total();
}

}  // namespace
}  // namespace ttrace::measure
