// How far two copies of a shard are apart: an inner loop for what is rare.
#pragma once

#include <cstddef>

#include "compare/kernels/kernel.h"

namespace ttrace::compare {

// Whether all `count` values are finite.
bool all_finite(const double* values, std::size_t count);

// Σ (A - B)² and max |A - B| over `count` pairs, in the order of the kernels.
struct DistanceSums {
  double d2 = 0;
  double largest = 0;
};
DistanceSums sum_distance(const double* a, const double* b, std::size_t count);

}  // namespace ttrace::compare
