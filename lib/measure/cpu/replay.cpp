#include "measure/cpu/replay.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
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

RowMoments moments_of_row(std::span<const double> x) {
  const auto n = static_cast<double>(x.size());
  RowMoments row;
  for (const double v : x) row.mean += v / n;
  for (const double v : x) {
    row.variance += (v - row.mean) * (v - row.mean) / n;
    row.mean_square += v * v / n;
  }
  return row;
}

void add_term(tensor::DType precision, ColumnSums& sums, std::size_t j, double term) {
  sums.exact[j] += term;
  sums.stepwise[j] = tensor::round_to(precision, sums.stepwise[j] + term);
}

}  // namespace

void compute(const RowsRequest& request) {
  const std::size_t length = request.length;
  const std::size_t norms = request.epsilons.size();
  ColumnSums* const layer_sums = request.sums + 1;
  ColumnSums* const rms_sums = request.sums + 1 + norms;
  std::vector<double> gradient_row(length);
  std::vector<double> input_row(length);
  const std::uint64_t count = tensor::volume(request.gradient.box);
  for (std::uint64_t at = 0; at < count; at += length) {
    const std::span<const double> g = numbers(request.gradient.values, at, length, gradient_row);
    for (std::size_t j = 0; j < length; ++j) add_term(request.precision, request.sums[0], j, g[j]);
    if (!request.input) continue;
    const std::span<const double> x = numbers(request.input->values, at, length, input_row);
    const RowMoments row = moments_of_row(x);
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
  Lanes bound2{};
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
    bound2[i % kLanes] += bound * bound;
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
  sums.sum_bound2 += add_lanes(bound2);
  return outside;
}

// Replays one request tile by tile.
class UpdateReplay {
 public:
  UpdateReplay(const Kernel& kernel, const UpdateRequest& request)
      : kernel_(kernel),
        request_(request),
        formula_(update_formula(request.step, request.momentum_buffer.has_value())),
        inputs_{&request.parameter, given(request.gradient),
                given(request.momentum_buffer ? request.momentum_buffer : request.exp_avg),
                given(request.exp_avg_sq), given(request.max_exp_avg_sq)} {}

  void compute() {
    TileStats stats;
    // Only tiles that beat the largest so far are searched for their place.
    stats.largest = std::exchange(request_.stats->largest, std::nullopt);
    const std::uint64_t count = tensor::volume(request_.updated.box);
    for (std::uint64_t first = 0; first < count; first += kTileElements) {
      add(first, std::min<std::uint64_t>(kTileElements, count - first), stats);
    }
    stats.unequal = stats.nonfinite_different + outside_;
    request_.stats->largest = std::exchange(stats.largest, std::nullopt);
    request_.stats->merge(stats);
  }

 private:
  static const InputBox* given(const std::optional<InputBox>& input) {
    return input ? &*input : nullptr;
  }

  // The numbers of `input` from `first` on: as they are stored, or decoded where they are scaled.
  StoredColumn column(const InputBox* input, std::uint64_t first, std::size_t count,
                      TileNumbers& scratch) const {
    if (input == nullptr) return {};
    const StoredValues& values = input->values;
    if (values.scale == 1) {
      return {stored_as(values.dtype),
              values.bits.data() + first * tensor::element_bytes(values.dtype)};
    }
    return {StoredType::kF64, numbers(values, first, count, scratch).data()};
  }

  void add(std::uint64_t first, std::size_t count, TileStats& stats) {
    UpdateTile tile;
    tile.count = count;
    tile.updated = column(&request_.updated, first, count, scratch_[kUpdateInputs]);
    for (std::size_t i = 0; i < kUpdateInputs; ++i) {
      tile.inputs[i] = column(inputs_[i], first, count, scratch_[i]);
    }
    UpdateTileSums sums;
    const double worst = request_.sums->worst ? std::min(request_.sums->worst->ratio, 1.0) : 0.0;
    kernel_.judge(formula_, tile, worst, sums);
    const bool finite =
        std::isfinite(sums.pair.r2) && std::isfinite(sums.pair.c2) && std::isfinite(sums.bound2);
    const double largest = stats.largest ? stats.largest->difference : 0.0;
    if (!finite || sums.beyond || sums.pair.largest > largest) {
      return add_one_by_one(tile, first, stats);
    }
    stats.elements += count;
    stats.finite += count;
    stats.sum_d2 += sums.pair.d2;
    stats.sum_d += sums.pair.d;
    stats.sum_r2 += sums.pair.r2;
    stats.sum_c2 += sums.pair.c2;
    stats.sum_rc += sums.pair.rc;
    request_.sums->sum_bound2 += sums.bound2;
  }

  // Adds a tile that has elements that are not finite or out of bounds, or whose place is needed.
  void add_one_by_one(const UpdateTile& tile, std::uint64_t first, TileStats& stats) {
    kernel_.replay(formula_, tile, updated_.data(), replayed_.data(), bounds_.data());
    const auto part = [&](const TileNumbers& of) { return std::span(of).first(tile.count); };
    const tensor::Box& box = request_.updated.box;
    const std::span<const double> parameter =
        numbers(request_.parameter.values, first, tile.count, scratch_[0]);
    add_numbers(kernel_, part(replayed_), part(updated_), box, first, stats);
    outside_ += judge_elements(
        box, {part(updated_), parameter, part(replayed_), part(bounds_), first}, *request_.sums);
  }

  const Kernel& kernel_;
  const UpdateRequest& request_;
  UpdateFormula formula_;
  std::array<const InputBox*, kUpdateInputs> inputs_;
  std::uint64_t outside_ = 0;
  TileNumbers scratch_[kUpdateInputs + 1];
  TileNumbers updated_;
  TileNumbers replayed_;
  TileNumbers bounds_;
};

}  // namespace

void compute(const Kernel& kernel, const UpdateRequest& request) {
  UpdateReplay(kernel, request).compute();
}

}  // namespace ttrace::measure
