#include "compare/slab_stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "compare/tile_kernel.h"

namespace ttrace::compare {
namespace {

bool same_nonfinite(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (std::isinf(a) && a == b);
}

// Copies of a tile with every pair that has a non-finite value set to zero: such a pair then adds
// exactly nothing to any sum.
struct Cleaned {
  std::array<double, kTileElements> reference;
  std::array<double, kTileElements> candidate;
};

void classify(const tensor::Box& box, std::uint64_t first, std::span<const double> reference,
              std::span<const double> candidate, Cleaned& cleaned, TileStats& stats) {
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double r = reference[i];
    const double c = candidate[i];
    const bool finite = std::isfinite(r) && std::isfinite(c);
    cleaned.reference[i] = finite ? r : 0;
    cleaned.candidate[i] = finite ? c : 0;
    if (finite) continue;
    --stats.finite;
    stats.nonfinite_reference += std::isfinite(r) ? 0 : 1;
    stats.nonfinite_candidate += std::isfinite(c) ? 0 : 1;
    if (same_nonfinite(r, c)) {
      ++stats.nonfinite_equal;
      continue;
    }
    ++stats.nonfinite_different;
    ++stats.unequal;
    if (!stats.first_nonfinite_difference) {
      stats.first_nonfinite_difference = tensor::coordinates(box, first + i);
    }
  }
}

}  // namespace

TileStats slab_stats(const tensor::Box& box, std::span<const double> reference,
                     std::span<const double> candidate) {
  TileStats total;
  Cleaned cleaned;
  for (std::size_t start = 0; start < reference.size(); start += kTileElements) {
    const std::size_t count = std::min(kTileElements, reference.size() - start);
    const auto r = reference.subspan(start, count);
    const auto c = candidate.subspan(start, count);
    TileStats tile;
    tile.elements = count;
    tile.finite = count;
    const double* clean_r = r.data();
    const double* clean_c = c.data();
    if (!all_finite(clean_r, count) || !all_finite(clean_c, count)) {
      classify(box, start, r, c, cleaned, tile);
      clean_r = cleaned.reference.data();
      clean_c = cleaned.candidate.data();
    }
    const TileSums sums = sum_tile(clean_r, clean_c, count);
    tile.sum_d2 = sums.d2;
    tile.sum_d = sums.d;
    tile.sum_r2 = sums.r2;
    tile.sum_c2 = sums.c2;
    tile.sum_rc = sums.rc;
    tile.unequal += sums.unequal;
    if (sums.largest > 0) {
      tile.largest = Extreme{sums.largest, clean_r[sums.largest_at], clean_c[sums.largest_at],
                             tensor::coordinates(box, start + sums.largest_at)};
    }
    total.merge(tile);
  }
  return total;
}

double squared_distance(std::span<const double> a, std::span<const double> b) {
  double total = 0;
  for (std::size_t start = 0; start < a.size(); start += kTileElements) {
    const std::size_t count = std::min(kTileElements, a.size() - start);
    const double* x = a.data() + start;
    const double* y = b.data() + start;
    if (all_finite(x, count) && all_finite(y, count)) {
      total += sum_distance(x, y, count).d2;
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (std::isfinite(x[i]) && std::isfinite(y[i])) {
        total += (x[i] - y[i]) * (x[i] - y[i]);
      } else if (!same_nonfinite(x[i], y[i])) {
        return std::numeric_limits<double>::infinity();
      }
    }
  }
  return total;
}

}  // namespace ttrace::compare
