// Values recomputed from other tensors: sums over rows, and updates of an optimizer.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "measure/cpu/tiles.h"
#include "tensor/codec.h"

namespace ttrace::measure {
namespace {

struct RowMoments {
  double mean = 0;
  double variance = 0;
  double mean_square = 0;
};

RowMoments moments_of(std::span<const double> x) {
  const auto n = static_cast<double>(x.size());
  RowMoments row;
  for (const double v : x) row.mean += v / n;
  for (const double v : x) {
    row.variance += (v - row.mean) * (v - row.mean) / n;
    row.mean_square += v * v / n;
  }
  return row;
}

void add_term(tensor::DType precision, RowSums& sums, std::size_t j, double term) {
  sums.exact[j] += term;
  sums.stepwise[j] = tensor::round_to(precision, sums.stepwise[j] + term);
}

}  // namespace

void compute(const RowsRequest& request) {
  const std::size_t length = request.length;
  const std::size_t norms = request.epsilons.size();
  RowSums* const layer_sums = request.sums + 1;
  RowSums* const rms_sums = request.sums + 1 + norms;
  std::vector<double> gradient_row(length);
  std::vector<double> input_row(length);
  const std::uint64_t count = tensor::volume(request.gradient.box);
  for (std::uint64_t at = 0; at < count; at += length) {
    const std::span<const double> g = numbers(request.gradient.values, at, length, gradient_row);
    for (std::size_t j = 0; j < length; ++j) add_term(request.precision, request.sums[0], j, g[j]);
    if (!request.input) continue;
    const std::span<const double> x = numbers(request.input->values, at, length, input_row);
    const RowMoments row = moments_of(x);
    for (std::size_t k = 0; k < norms; ++k) {
      const double layer = 1 / std::sqrt(row.variance + request.epsilons[k]);
      const double rms = 1 / std::sqrt(row.mean_square + request.epsilons[k]);
      for (std::size_t j = 0; j < length; ++j) {
        add_term(request.precision, layer_sums[k], j, g[j] * (x[j] - row.mean) * layer);
        add_term(request.precision, rms_sums[k], j, g[j] * x[j] * rms);
      }
    }
  }
}

namespace {

// One tile of a replayed update.
struct ReplayedTile {
  std::span<const double> updated;
  std::span<const double> parameter;
  std::span<const double> replayed;
  std::span<const double> bounds;
  std::uint64_t first = 0;  // position of the first element in the box
};

// Judges the finite elements; returns how many are out of bounds.
std::uint64_t judge_elements(const tensor::Box& box, const ReplayedTile& tile, UpdateSums& sums) {
  std::uint64_t outside = 0;
  double worst_ratio = sums.worst ? sums.worst->ratio : 0;
  for (std::size_t i = 0; i < tile.updated.size(); ++i) {
    const double q = tile.replayed[i];
    const double c = tile.updated[i];
    if (!std::isfinite(q) || !std::isfinite(c)) continue;
    const double difference = std::abs(c - q);
    const double bound = tile.bounds[i];
    if (!std::isfinite(bound)) {
      ++sums.unjudged;
      continue;
    }
    sums.sum_bound2 += bound * bound;
    if (difference > bound) {
      ++outside;
      sums.unmoved += c == tile.parameter[i] ? 1 : 0;
    }
    // Without dividing: most elements are not the worst so far.
    if (!(difference > worst_ratio * bound)) continue;
    worst_ratio = bound > 0 ? difference / bound : std::numeric_limits<double>::infinity();
    sums.worst = WorstUpdate{
        worst_ratio, tensor::coordinates(box, tile.first + i), std::nullopt, q, c, bound};
  }
  return outside;
}

}  // namespace

void compute(const Kernel& kernel, const UpdateRequest& request) {
  const tensor::Box& box = request.updated.box;
  TileNumbers scratch[7];
  TileNumbers replayed;
  TileNumbers bounds;
  TileStats stats;
  std::uint64_t outside = 0;
  const std::uint64_t count = tensor::volume(box);
  for (std::uint64_t first = 0; first < count; first += kTileElements) {
    const auto here =
        static_cast<std::size_t>(std::min<std::uint64_t>(kTileElements, count - first));
    const auto tile = [&](const InputBox& input, TileNumbers& room) {
      return numbers(input.values, first, here, room);
    };
    const auto tile_of = [&](const std::optional<InputBox>& input, TileNumbers& room) {
      return input ? tile(*input, room) : std::span<const double>();
    };
    const std::span<const double> updated = tile(request.updated, scratch[0]);
    const Inputs inputs{tile(request.parameter, scratch[1]),
                        tile_of(request.gradient, scratch[2]),
                        request.step.clip,
                        tile_of(request.momentum_buffer, scratch[3]),
                        tile_of(request.exp_avg, scratch[4]),
                        tile_of(request.exp_avg_sq, scratch[5]),
                        tile_of(request.max_exp_avg_sq, scratch[6])};
    const std::span<double> values(replayed.data(), here);
    const std::span<double> allowed(bounds.data(), here);
    replay(request.step.hyperparameters, request.step.rounding, inputs, values, allowed);
    add_numbers(kernel, values, updated, box, first, stats);
    outside +=
        judge_elements(box, {updated, inputs.parameter, values, allowed, first}, *request.sums);
  }
  stats.unequal = stats.nonfinite_different + outside;
  request.stats->merge(stats);
}

}  // namespace ttrace::measure
