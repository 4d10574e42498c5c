// Statistics of the difference between a reference and a candidate over a set of elements. Merging
// the same parts in the same order gives the same bits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/heap_optional.h"
#include "tensor/box.h"

namespace ttrace::measure {

// A largest difference and its place in coordinates of the logical tensor.
struct Extreme {
  double difference = 0;  // |C - R|
  double reference = 0;
  double candidate = 0;
  tensor::Shape at;
};

// The place of an element on a rank.
struct ElementPlace {
  std::uint64_t rank = 0;
  tensor::Shape local;  // in the rank's dataset
};

struct TileStats {
  std::uint64_t elements = 0;  // pairs seen
  std::uint64_t finite = 0;    // pairs with both values finite; only these are in the sums
  double sum_d2 = 0;           // Σ (C - R)²
  double sum_d = 0;            // Σ (C - R)
  double sum_r2 = 0;           // Σ R²
  double sum_c2 = 0;           // Σ C²
  double sum_rc = 0;           // Σ R·C
  std::uint64_t unequal = 0;   // pairs that are not equal (NaN equals NaN)
  std::uint64_t nonfinite_reference = 0;
  std::uint64_t nonfinite_candidate = 0;
  std::uint64_t nonfinite_equal = 0;      // same class on both sides: NaN, +inf or -inf
  std::uint64_t nonfinite_different = 0;  // non-finite on one side, another value on the other
  std::optional<Extreme> largest;         // the first largest among finite pairs that differ
  base::HeapOptional<tensor::Shape> first_nonfinite_difference;

  // Appends `later`, whose elements come after these.
  void merge(const TileStats& later);
};

// Norms over the finite pairs. ‖C - R‖ is at least max |C - R|, also where the squares underflow.
double difference_norm(const TileStats& stats);
double reference_norm(const TileStats& stats);
double candidate_norm(const TileStats& stats);

// The least-squares fit C ≈ k·R: k and ‖C - k·R‖. Nothing if the reference is zero.
struct ScaleFit {
  double scale = 0;
  double residual_norm = 0;
};
std::optional<ScaleFit> fit_scale(const TileStats& stats);

// Returns ⟨C, R⟩ / (‖C‖·‖R‖), or nothing if either is zero.
std::optional<double> cosine(const TileStats& stats);

}  // namespace ttrace::measure
