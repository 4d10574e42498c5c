#include "measure/tile_stats.h"

#include <algorithm>
#include <cmath>

namespace ttrace::measure {

void TileStats::merge(const TileStats& later) {
  elements += later.elements;
  finite += later.finite;
  sum_d2 += later.sum_d2;
  sum_d += later.sum_d;
  sum_r2 += later.sum_r2;
  sum_c2 += later.sum_c2;
  sum_rc += later.sum_rc;
  unequal += later.unequal;
  nonfinite_reference += later.nonfinite_reference;
  nonfinite_candidate += later.nonfinite_candidate;
  nonfinite_equal += later.nonfinite_equal;
  nonfinite_different += later.nonfinite_different;
  if (later.largest && (!largest || later.largest->difference > largest->difference)) {
    largest = later.largest;
  }
  if (!first_nonfinite_difference) first_nonfinite_difference = later.first_nonfinite_difference;
}

double difference_norm(const TileStats& stats) {
  return std::max(std::sqrt(stats.sum_d2), stats.largest ? stats.largest->difference : 0.0);
}

double reference_norm(const TileStats& stats) { return std::sqrt(stats.sum_r2); }

double candidate_norm(const TileStats& stats) { return std::sqrt(stats.sum_c2); }

std::optional<ScaleFit> fit_scale(const TileStats& stats) {
  if (!(stats.sum_r2 > 0)) return std::nullopt;
  const double scale = stats.sum_rc / stats.sum_r2;
  // ‖C - kR‖² = ‖C - R‖² - (k-1)²‖R‖² at the best k: no cancellation between large ‖C‖² and k²‖R‖²
  // when C is close to R.
  const double squared = stats.sum_d2 - (scale - 1) * (scale - 1) * stats.sum_r2;
  return ScaleFit{scale, std::sqrt(std::max(0.0, squared))};
}

std::optional<double> cosine(const TileStats& stats) {
  const double norms = std::sqrt(stats.sum_r2) * std::sqrt(stats.sum_c2);
  if (!(norms > 0)) return std::nullopt;
  return stats.sum_rc / norms;
}

}  // namespace ttrace::measure
