// The inner loop: sums over one tile of decoded values, the same bits on every machine.
#pragma once

#include <cstddef>

namespace ttrace::compare {

inline constexpr std::size_t kTileElements = 4096;

struct TileSums {
  double d2 = 0;
  double d = 0;
  double r2 = 0;
  double c2 = 0;
  double rc = 0;
  double largest = 0;          // max |C - R|
  std::size_t largest_at = 0;  // its first position
  std::size_t unequal = 0;
};

// Whether all `count` values are finite.
bool all_finite(const double* values, std::size_t count);

// Sums over `count` ≤ kTileElements pairs of finite values. Element i goes to lane i mod 32, lanes
// are added in a fixed tree, so the result depends on nothing but the values.
TileSums sum_tile(const double* reference, const double* candidate, std::size_t count);

// Σ (A - B)² and max |A - B| alone, in the same order.
struct DistanceSums {
  double d2 = 0;
  double largest = 0;
};
DistanceSums sum_distance(const double* a, const double* b, std::size_t count);

// Σ (B - A)², Σ A² and max |B - A| over any number of pairs; not finite where a value is not.
struct PairSums {
  double d2 = 0;
  double a2 = 0;
  double largest = 0;
};
PairSums sum_pairs(const double* a, const double* b, std::size_t count);

}  // namespace ttrace::compare
