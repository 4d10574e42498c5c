#include "compare/tile_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ttrace::compare {
namespace {

using Lanes = std::array<double, kLanes>;

double add_lanes(Lanes& lanes) {
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

double max_lane(const Lanes& lanes) { return *std::max_element(lanes.begin(), lanes.end()); }

}  // namespace

bool all_finite(const double* values, std::size_t count) {
  // x·0 is 0 for finite x and NaN otherwise; unlike a test per element this vectorises.
  Lanes zeros{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) zeros[lane] += values[i + lane] * 0.0;
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) zeros[lane] += values[i] * 0.0;
  return add_lanes(zeros) == 0.0;
}

DistanceSums sum_distance(const double* a, const double* b, std::size_t count) {
  Lanes d2{};
  Lanes largest{};
  const auto add = [&](std::size_t lane, double difference) {
    d2[lane] += difference * difference;
    const double size = std::abs(difference);
    largest[lane] = size > largest[lane] ? size : largest[lane];
  };
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, a[i + lane] - b[i + lane]);
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) add(lane, a[i] - b[i]);
  return {add_lanes(d2), max_lane(largest)};
}

}  // namespace ttrace::compare
