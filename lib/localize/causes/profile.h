// What one pass over both sides of a tensor gives: for every slice along every dimension its norms,
// its error, and a sketch by which slices of one side are found on the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "measure/tensor_reader.h"

namespace ttrace::localize {

// Sums of a slice's values with random signs: the distance of two sketches estimates that of the
// slices.
inline constexpr std::size_t kSketchSize = 16;
using SliceSketch = std::array<double, kSketchSize>;

double squared_distance(const SliceSketch& a, const SliceSketch& b);

struct SliceSums {
  SliceSketch reference{};
  SliceSketch candidate{};
  double r2 = 0;  // Σ R²
  double c2 = 0;  // Σ C²
  double d2 = 0;  // Σ (C - R)²
};

struct Profile {
  // Slice i along dimension d is slices[d][i]. Empty for a dimension of one index, and for one of
  // more than kMostSlices.
  std::vector<std::vector<SliceSums>> slices;
  // Σ (C - R)² of every row of the last dimension; empty for tensors of fewer than three
  // dimensions, and where there are more than kMostRows rows.
  std::vector<double> rows;
  // Σ (C - R) over all rows, by the index in the last dimension; empty if it is too large.
  std::vector<double> column_sums;

  double d2 = 0;
  // Elements where the candidate alone is zero, and where the reference alone is, and Σ (C - R)²
  // over them and over all others.
  std::uint64_t vanished = 0;
  std::uint64_t appeared = 0;
  double vanished_d2 = 0;
  double appeared_d2 = 0;
  double other_d2 = 0;
};

inline constexpr std::uint64_t kMostSlices = std::uint64_t{1} << 18;
inline constexpr std::uint64_t kMostRows = std::uint64_t{1} << 20;

// Elements beyond which a tensor is not read once more for its cause.
inline constexpr std::uint64_t kMostElementsForCauses = std::uint64_t{1} << 28;

// Reads both, of one shape, once and in bounded memory; pairs with a non-finite value count
// nothing. Throws an input error if a shard cannot be read.
Profile make_profile(const measure::TensorRef& reference, const measure::TensorRef& candidate);

}  // namespace ttrace::localize
