#include "compare/tile_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ttrace::compare {
namespace {

constexpr std::size_t kLanes = 32;
using Lanes = std::array<double, kLanes>;

double add_lanes(Lanes& lanes) {
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

double max_lane(const Lanes& lanes) { return *std::max_element(lanes.begin(), lanes.end()); }

constexpr std::size_t kFewLanes = 4;
constexpr std::size_t kShortRun = 256;

template <std::size_t kWidth>
PairSums sum_pairs_in(const double* a, const double* b, std::size_t count) {
  std::array<double, kWidth> d2{};
  std::array<double, kWidth> a2{};
  std::array<double, kWidth> largest{};
  const auto add = [&](std::size_t lane, double from, double to) {
    const double difference = to - from;
    d2[lane] += difference * difference;
    a2[lane] += from * from;
    const double size = std::abs(difference);
    largest[lane] = size > largest[lane] ? size : largest[lane];
  };
  std::size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    for (std::size_t lane = 0; lane < kWidth; ++lane) add(lane, a[i + lane], b[i + lane]);
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) add(lane, a[i], b[i]);
  for (std::size_t half = kWidth / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) {
      d2[lane] += d2[lane + half];
      a2[lane] += a2[lane + half];
      largest[lane] = std::max(largest[lane], largest[lane + half]);
    }
  }
  return {d2[0], a2[0], largest[0]};
}

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

TileSums sum_tile(const double* reference, const double* candidate, std::size_t count) {
  Lanes d2{};
  Lanes d{};
  Lanes r2{};
  Lanes c2{};
  Lanes rc{};
  Lanes largest{};
  const auto add = [&](std::size_t lane, double r, double c) {
    const double difference = c - r;
    d2[lane] += difference * difference;
    d[lane] += difference;
    r2[lane] += r * r;
    c2[lane] += c * c;
    rc[lane] += r * c;
    const double size = std::abs(difference);
    largest[lane] = size > largest[lane] ? size : largest[lane];
  };
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      add(lane, reference[i + lane], candidate[i + lane]);
    }
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) add(lane, reference[i], candidate[i]);

  TileSums sums;
  sums.largest = max_lane(largest);
  sums.d2 = add_lanes(d2);
  sums.d = add_lanes(d);
  sums.r2 = add_lanes(r2);
  sums.c2 = add_lanes(c2);
  sums.rc = add_lanes(rc);
  // Most tiles of most tensors differ somewhere; looking where costs one more pass over a tile that
  // is in the cache.
  if (sums.largest > 0) {
    bool found = false;
    for (std::size_t k = 0; k < count; ++k) {
      sums.unequal += candidate[k] != reference[k] ? 1 : 0;
      if (!found && std::abs(candidate[k] - reference[k]) == sums.largest) {
        sums.largest_at = k;
        found = true;
      }
    }
  }
  return sums;
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

PairSums sum_pairs(const double* a, const double* b, std::size_t count) {
  // Narrow cells have short rows, for which filling and folding many lanes would cost more than
  // the sums.
  return count < kShortRun ? sum_pairs_in<kFewLanes>(a, b, count)
                           : sum_pairs_in<kLanes>(a, b, count);
}

}  // namespace ttrace::compare
