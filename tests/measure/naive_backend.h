// A second backend: plain loops, one element after the other, with the order of sums that
// measure/backend.h states. It copies the inputs of every request and computes nothing before
// finish(), as a GPU may, and counts what it is asked for.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "measure/backend.h"
#include "measure/naive_update.h"
#include "tensor/codec.h"

namespace ttrace::test {

using measure::InputBox;
using measure::StoredValues;
using measure::TileStats;

constexpr std::size_t kNaiveTile = 4096;
constexpr std::size_t kNaiveLanes = 32;

// A sum in lanes.
class LaneSum {
 public:
  void add(std::size_t i, double term) { lanes_[i % kNaiveLanes] += term; }
  double total() const {
    std::array<double, kNaiveLanes> lanes = lanes_;
    for (const std::size_t apart : {16U, 8U, 4U, 2U, 1U}) {
      for (std::size_t i = 0; i < apart; ++i) lanes[i] += lanes[i + apart];
    }
    return lanes[0];
  }

 private:
  std::array<double, kNaiveLanes> lanes_{};
};

inline std::vector<double> naive_numbers(const StoredValues& values) {
  std::vector<double> out(values.bits.size() / tensor::element_bytes(values.dtype));
  tensor::decode_floats(values.dtype, values.bits, out);
  for (double& value : out) value *= values.scale;
  return out;
}

// What `values`, of `from`, holds in the box.
template <typename Value>
std::vector<Value> naive_part(const std::vector<Value>& values, const tensor::Box& from,
                              const tensor::Box& box) {
  std::vector<Value> part;
  for (std::uint64_t i = 0; i < tensor::volume(box); ++i) {
    tensor::Shape at = tensor::coordinates(box, i);
    for (std::size_t d = 0; d < at.size(); ++d) at[d] -= from.origin[d];
    part.push_back(values[tensor::position(from.extent, at)]);
  }
  return part;
}

inline std::vector<double> naive_part(const InputBox& input, const tensor::Box& box) {
  return naive_part(naive_numbers(input.values), input.box, box);
}

inline bool is_same_nonfinite(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (std::isinf(a) && a == b);
}

// Classifies a pair with a value that is not finite.
inline void add_nonfinite(double r, double c, const tensor::Shape& at, TileStats& into) {
  into.nonfinite_reference += std::isfinite(r) ? 0 : 1;
  into.nonfinite_candidate += std::isfinite(c) ? 0 : 1;
  if (is_same_nonfinite(r, c)) {
    ++into.nonfinite_equal;
    return;
  }
  ++into.nonfinite_different;
  ++into.unequal;
  if (!into.first_nonfinite_difference) into.first_nonfinite_difference = at;
}

inline void naive_stats(const tensor::Box& box, const std::vector<double>& reference,
                        const std::vector<double>& candidate, TileStats& into) {
  for (std::size_t first = 0; first < reference.size(); first += kNaiveTile) {
    LaneSum d2, d, r2, c2, rc;
    for (std::size_t i = 0; i < std::min(kNaiveTile, reference.size() - first); ++i) {
      const double r = reference[first + i];
      const double c = candidate[first + i];
      ++into.elements;
      if (!std::isfinite(r) || !std::isfinite(c)) {
        add_nonfinite(r, c, tensor::coordinates(box, first + i), into);
        continue;
      }
      ++into.finite;
      into.unequal += r != c ? 1 : 0;
      d2.add(i, (c - r) * (c - r));
      d.add(i, c - r);
      r2.add(i, r * r);
      c2.add(i, c * c);
      rc.add(i, r * c);
      if (std::abs(c - r) > (into.largest ? into.largest->difference : 0)) {
        into.largest = {std::abs(c - r), r, c, tensor::coordinates(box, first + i)};
      }
    }
    into.sum_d2 += d2.total();
    into.sum_d += d.total();
    into.sum_r2 += r2.total();
    into.sum_c2 += c2.total();
    into.sum_rc += rc.total();
  }
}

inline void naive(const measure::PairRequest& request) {
  const std::vector<double> r = naive_part(request.reference, request.box);
  const std::vector<double> c = naive_part(request.candidate, request.box);
  if (!tensor::is_floating(request.reference.values.dtype)) {
    // Of integers that numbers can hold.
    TileStats stats;
    naive_stats(request.box, r, c, stats);
    return request.stats->merge(stats);
  }
  if (request.grid == nullptr) return naive_stats(request.box, r, c, *request.stats);
  request.grid->for_each_part(request.box, [&](std::size_t cell, const tensor::Box& part) {
    TileStats stats;
    naive_stats(part, naive_part(r, request.box, part), naive_part(c, request.box, part), stats);
    request.cells[cell].add(stats);
    request.stats->merge(stats);
  });
}

inline void naive(const measure::NoiseRequest& request) {
  for (std::size_t run = 0; run < request.runs.size(); ++run) {
    request.grid->for_each_part(request.box, [&](std::size_t cell, const tensor::Box& part) {
      TileStats stats;
      naive_stats(part, naive_part(request.reference, part), naive_part(request.runs[run], part),
                  stats);
      measure::NoiseSums& sums = request.sums[run];
      sums.cells[cell].add(stats);
      if (stats.largest) sums.largest = std::max(sums.largest, stats.largest->difference);
    });
  }
}

inline void naive(const measure::RowsRequest& request) {
  const std::vector<double> g = naive_numbers(request.gradient.values);
  const std::vector<double> x =
      request.input ? naive_numbers(request.input->values) : std::vector<double>();
  const std::size_t n = request.length;
  const auto add = [&](std::size_t which, std::size_t j, double term) {
    measure::ColumnSums& sums = request.sums[which];
    sums.exact[j] += term;
    sums.stepwise[j] = tensor::round_to(request.precision, sums.stepwise[j] + term);
  };
  for (std::size_t row = 0; row < g.size(); row += n) {
    for (std::size_t j = 0; j < n; ++j) add(0, j, g[row + j]);
    if (!request.input) continue;
    double mean = 0;
    double variance = 0;
    double square = 0;
    for (std::size_t j = 0; j < n; ++j) mean += x[row + j] / static_cast<double>(n);
    for (std::size_t j = 0; j < n; ++j) {
      const double away = x[row + j] - mean;
      variance += away * away / static_cast<double>(n);
      square += x[row + j] * x[row + j] / static_cast<double>(n);
    }
    const std::size_t norms = request.epsilons.size();
    for (std::size_t k = 0; k < norms; ++k) {
      const double layer = 1 / std::sqrt(variance + request.epsilons[k]);
      const double rms = 1 / std::sqrt(square + request.epsilons[k]);
      for (std::size_t j = 0; j < n; ++j) {
        add(1 + k, j, g[row + j] * (x[row + j] - mean) * layer);
        add(1 + norms + k, j, g[row + j] * x[row + j] * rms);
      }
    }
  }
}

inline void naive(const measure::ReplicasRequest& request) {
  const std::vector<double> first = naive_numbers(request.first);
  for (std::size_t other = 0; other < request.others.size(); ++other) {
    const std::vector<double> values =
        naive_numbers({request.others[other], request.first.dtype, request.first.scale});
    double squares = 0;
    for (std::size_t tile = 0; tile < first.size(); tile += kNaiveTile) {
      LaneSum sum;
      for (std::size_t i = 0; i < std::min(kNaiveTile, first.size() - tile); ++i) {
        const double apart = first[tile + i] - values[tile + i];
        sum.add(i, apart * apart);
      }
      squares += sum.total();
    }
    request.squared_distances[other] = squares;  // the test's replicas are finite and differ
  }
}

inline void naive(const measure::UpdateRequest& request) {
  const auto state = [](const std::optional<InputBox>& input) {
    return input ? naive_numbers(input->values) : std::vector<double>();
  };
  const std::vector<double> updated = naive_numbers(request.updated.values);
  const std::vector<double> parameter = naive_numbers(request.parameter.values);
  const std::vector<double> gradient = state(request.gradient);
  const std::vector<double> momentum = state(request.momentum_buffer);
  const std::vector<double> m = state(request.exp_avg);
  const std::vector<double> v = state(request.exp_avg_sq);
  const std::vector<double> largest_v = state(request.max_exp_avg_sq);
  const Replayed replay = scalar_replay(
      request.step, {parameter, gradient, request.step.clip, momentum, m, v, largest_v});
  TileStats stats;
  naive_stats(request.updated.box, replay.values, updated, stats);
  stats.unequal = stats.nonfinite_different;
  measure::UpdateSums& sums = *request.sums;
  for (std::size_t tile = 0; tile < updated.size(); tile += kNaiveTile) {
    LaneSum bound2;
    for (std::size_t i = tile; i < std::min(tile + kNaiveTile, updated.size()); ++i) {
      const double q = replay.values[i];
      const double c = updated[i];
      const double bound = replay.bounds[i];
      if (!std::isfinite(q) || !std::isfinite(c)) continue;
      if (!std::isfinite(bound)) {
        ++sums.unjudged;
        continue;
      }
      bound2.add(i, bound * bound);
      const double apart = std::abs(c - q);
      if (apart > bound) {
        ++stats.unequal;
        sums.unmoved += c == parameter[i] ? 1 : 0;
      }
      if (!(apart > (sums.worst ? sums.worst->ratio : 0) * bound)) continue;
      sums.worst =
          measure::WorstUpdate{bound > 0 ? apart / bound : std::numeric_limits<double>::infinity(),
                               tensor::coordinates(request.updated.box, i),
                               std::nullopt,
                               q,
                               c,
                               bound};
    }
    sums.sum_bound2 += bound2.total();
  }
  request.stats->merge(stats);
}

struct RequestCounts {
  std::atomic<int> pairs{0}, noise{0}, rows{0}, replicas{0}, updates{0};
  std::atomic<int> finishes{0};
};

class NaiveBatch : public measure::Batch {
 public:
  explicit NaiveBatch(RequestCounts& counts) : counts_(counts) {}

  void add(const measure::PairRequest& request) override {
    ++counts_.pairs;
    measure::PairRequest kept = request;
    keep({&kept.reference.values.bits, &kept.candidate.values.bits});
    later(kept);
  }
  void add(const measure::NoiseRequest& request) override {
    ++counts_.noise;
    measure::NoiseRequest kept = request;
    keep({&kept.reference.values.bits});
    for (InputBox& run : kept.runs) keep({&run.values.bits});
    later(kept);
  }
  void add(const measure::RowsRequest& request) override {
    ++counts_.rows;
    measure::RowsRequest kept = request;
    keep({&kept.gradient.values.bits});
    if (kept.input) keep({&kept.input->values.bits});
    later(kept);
  }
  void add(const measure::ReplicasRequest& request) override {
    ++counts_.replicas;
    measure::ReplicasRequest kept = request;
    keep({&kept.first.bits});
    for (std::span<const std::byte>& other : kept.others) keep({&other});
    later(kept);
  }
  void add(const measure::UpdateRequest& request) override {
    ++counts_.updates;
    measure::UpdateRequest kept = request;
    keep({&kept.updated.values.bits, &kept.parameter.values.bits});
    for (auto* input : {&kept.gradient, &kept.momentum_buffer, &kept.exp_avg, &kept.exp_avg_sq,
                        &kept.max_exp_avg_sq}) {
      if (*input) keep({&(*input)->values.bits});
    }
    later(kept);
  }

  void finish() override {
    ++counts_.finishes;
    for (const std::function<void()>& work : work_) work();
    work_.clear();
    bytes_.clear();
  }

 private:
  void keep(std::initializer_list<std::span<const std::byte>*> inputs) {
    for (std::span<const std::byte>* input : inputs) {
      bytes_.emplace_back(input->begin(), input->end());
      *input = bytes_.back();
    }
  }
  template <typename Request>
  void later(const Request& request) {
    work_.push_back([request] { naive(request); });
  }

  RequestCounts& counts_;
  std::deque<std::vector<std::byte>> bytes_;
  std::vector<std::function<void()>> work_;
};

class NaiveBackend : public measure::Backend {
 public:
  std::string name() const override { return "naive"; }
  std::string instruction_set() const override { return "none"; }
  std::unique_ptr<measure::Batch> new_batch() const override {
    return std::make_unique<NaiveBatch>(counts);
  }

  mutable RequestCounts counts;
};

}  // namespace ttrace::test
