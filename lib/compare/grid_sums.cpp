#include "compare/grid_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compare/tile_kernel.h"

namespace ttrace::compare {
namespace {

bool same_nonfinite(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (std::isinf(a) && a == b);
}

// The same sums where some values are not finite.
PairSums careful_sums(std::span<const double> a, std::span<const double> b) {
  PairSums sums;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(b[i])) {
      const double difference = b[i] - a[i];
      sums.d2 += difference * difference;
      sums.a2 += a[i] * a[i];
      sums.largest = std::max(sums.largest, std::abs(difference));
    } else if (!same_nonfinite(a[i], b[i])) {
      sums.d2 = std::numeric_limits<double>::infinity();
    }
  }
  return sums;
}

}  // namespace

void GridSums::add(const tensor::Box& box, std::span<const double> a, std::span<const double> b) {
  grid_->for_each_run(box, [&](std::size_t cell, std::uint64_t offset, std::uint64_t count) {
    const auto from_a = a.subspan(offset, count);
    const auto from_b = b.subspan(offset, count);
    PairSums sums = sum_pairs(from_a.data(), from_b.data(), count);
    if (!std::isfinite(sums.d2) || !std::isfinite(sums.a2)) sums = careful_sums(from_a, from_b);
    cells_[cell].d2 += sums.d2;
    cells_[cell].a2 += sums.a2;
    largest_ = std::max(largest_, sums.largest);
  });
}

}  // namespace ttrace::compare
