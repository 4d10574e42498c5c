#include <algorithm>
#include <cmath>
#include <limits>

#include "measure/cpu/add_tile.h"
#include "measure/cpu/requests.h"
#include "measure/cpu/tiles.h"

namespace ttrace::measure {
namespace {

bool any_different(std::span<const double> a, std::span<const double> b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return true;
  }
  return false;
}

double distance(const StoredValues& first, const StoredValues& other) {
  const std::size_t count = first.bits.size() / tensor::element_bytes(first.dtype);
  TileNumbers a;
  TileNumbers b;
  double squares = 0;
  bool different = false;
  for (std::size_t at = 0; at < count; at += kTileElements) {
    const std::size_t here = std::min(kTileElements, count - at);
    const std::span<const double> x = numbers(first, at, here, a);
    const std::span<const double> y = numbers(other, at, here, b);
    squares = add_squared_distance(x, y, squares);
    different = different || any_different(x, y);
  }
  // Large integers that differ may decode to the same number.
  if (!tensor::is_floating(first.dtype)) return std::max(squares, 1.0);
  const bool underflowed = squares == 0 && different;
  return underflowed ? std::numeric_limits<double>::denorm_min() : squares;
}

}  // namespace

void compute(const ReplicasRequest& request) {
  for (std::size_t i = 0; i < request.others.size(); ++i) {
    const StoredValues other{request.others[i], request.first.dtype, request.first.scale};
    request.squared_distances[i] = distance(request.first, other);
  }
}

}  // namespace ttrace::measure
