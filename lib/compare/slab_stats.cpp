#include "compare/slab_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compare/add_tile.h"
#include "compare/tile_kernel.h"

namespace ttrace::compare {
namespace {

bool same_nonfinite(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (std::isinf(a) && a == b);
}

}  // namespace

TileStats slab_stats(const tensor::Box& box, std::span<const double> reference,
                     std::span<const double> candidate) {
  TileStats total;
  for (std::size_t start = 0; start < reference.size(); start += kTileElements) {
    const std::size_t count = std::min(kTileElements, reference.size() - start);
    add_tile(tensor::DType::kFloat64, std::as_bytes(reference.subspan(start)).data(),
             std::as_bytes(candidate.subspan(start)).data(), count, box, start, total);
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
