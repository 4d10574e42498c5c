#include "measure/cuda/consumers.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "measure/cpu/tiles.h"
#include "tensor/box.h"
#include "tensor/codec.h"

namespace ttrace::measure::cuda {
namespace {

static_assert(kTile == kTileElements && kWarp == kLanes);

// Calls visit(result, elements, first) for every tile; `first` is the position in the box.
template <typename Visit>
void for_each_result(const TileRun& run, std::span<const TileResult> results, Visit visit) {
  for (std::uint64_t tile = 0; tile < run.tiles(); ++tile) {
    const std::uint64_t first = tile * kTile;
    visit(results[tile], std::min<std::uint64_t>(kTile, run.elements - first), first);
  }
}

}  // namespace

void add_result(const TileResult& result, std::uint64_t count, const tensor::Box& box,
                std::uint64_t first, TileStats& into) {
  into.elements += count;
  into.finite += count - result.nonfinite_equal - result.nonfinite_different;
  into.nonfinite_reference += result.nonfinite_reference;
  into.nonfinite_candidate += result.nonfinite_candidate;
  into.nonfinite_equal += result.nonfinite_equal;
  into.nonfinite_different += result.nonfinite_different;
  if (result.nonfinite_different > 0 && !into.first_nonfinite_difference) {
    into.first_nonfinite_difference = tensor::coordinates(box, first + result.first_different);
  }
  into.sum_d2 += result.d2;
  into.sum_d += result.d;
  into.sum_r2 += result.r2;
  into.sum_c2 += result.c2;
  into.sum_rc += result.rc;
  into.unequal += result.unequal + result.nonfinite_different;
  if (result.largest <= (into.largest ? into.largest->difference : 0.0)) return;
  into.largest = Extreme{result.largest, result.reference_at, result.candidate_at,
                         tensor::coordinates(box, first + result.largest_at)};
}

namespace {

class PairConsumer : public Consumer {
 public:
  PairConsumer(const tensor::Box& box, TileStats& into, CellSums* cell)
      : box_(box), into_(into), cell_(cell) {}

  void take(const TileRun& run, std::span<const TileResult> results) override {
    TileStats& sums = cell_ == nullptr ? into_ : part_;
    for_each_result(run, results, [&](const TileResult& result, std::uint64_t n, std::uint64_t at) {
      add_result(result, n, box_, run.first + at, sums);
    });
  }
  void end() override {
    if (cell_ == nullptr) return;
    cell_->add(part_);
    into_.merge(part_);
  }

 private:
  tensor::Box box_;
  TileStats& into_;
  CellSums* cell_;
  TileStats part_;
};

__extension__ using WideInteger = __int128;  // holds the difference of any two 64-bit integers

WideInteger integer_at(const StoredValues& values, std::uint64_t i) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, values.bits.data() + i * sizeof bits, sizeof bits);
  return values.dtype == tensor::DType::kUInt64
             ? static_cast<WideInteger>(bits)
             : static_cast<WideInteger>(static_cast<std::int64_t>(bits));
}

class IntegerConsumer : public Consumer {
 public:
  IntegerConsumer(const tensor::Box& box, TileStats& into) : box_(box), into_(into) {}

  void take(const TileRun& run, std::span<const TileResult> results) override {
    for_each_result(run, results, [&](const TileResult& result, std::uint64_t n, std::uint64_t at) {
      TileResult sums = result;
      sums.largest = 0;
      add_result(sums, n, box_, run.first + at, stats_);
      if (result.unequal == 0) return;
      const WideInteger r = integer_at(run.inputs[0], at + result.largest_at);
      const WideInteger c = integer_at(run.inputs[1], at + result.largest_at);
      const WideInteger size = c > r ? c - r : r - c;
      if (size <= largest_) return;
      largest_ = size;
      stats_.largest =
          Extreme{static_cast<double>(size), static_cast<double>(r), static_cast<double>(c),
                  tensor::coordinates(box_, run.first + at + result.largest_at)};
    });
  }
  void end() override { into_.merge(stats_); }

 private:
  tensor::Box box_;
  TileStats& into_;
  TileStats stats_;
  WideInteger largest_ = 0;
};

class NoiseConsumer : public Consumer {
 public:
  NoiseConsumer(const tensor::Box& box, NoiseSums& into, std::size_t cell)
      : part_(box, stats_, nullptr), into_(into), cell_(cell) {}

  void take(const TileRun& run, std::span<const TileResult> results) override {
    part_.take(run, results);
  }
  void end() override {
    into_.cells[cell_].add(stats_);
    if (stats_.largest) into_.largest = std::max(into_.largest, stats_.largest->difference);
  }

 private:
  TileStats stats_;
  PairConsumer part_;
  NoiseSums& into_;
  std::size_t cell_;
};

class ReplicaConsumer : public Consumer {
 public:
  explicit ReplicaConsumer(double& squared_distance) : squared_distance_(squared_distance) {}

  void take(const TileRun& run, std::span<const TileResult> results) override {
    is_floating_ = tensor::is_floating(run.inputs[0].dtype);
    for_each_result(run, results, [&](const TileResult& result, std::uint64_t n, std::uint64_t at) {
      different_ = different_ || result.unequal > 0 || result.nonfinite_different > 0;
      if (result.nonfinite_different > 0) {
        squares_ = std::numeric_limits<double>::infinity();
      } else if (result.nonfinite_equal == 0) {
        squares_ += result.d2;
      } else {
        add_one_by_one(run, at, n);
      }
    });
  }
  void end() override {
    if (!is_floating_) {
      // Large integers that differ may decode to the same number.
      squared_distance_ = std::max(squares_, 1.0);
      return;
    }
    const bool underflowed = squares_ == 0 && different_;
    squared_distance_ = underflowed ? std::numeric_limits<double>::denorm_min() : squares_;
  }

 private:
  // A tile with equal non-finite values is not summed in lanes.
  void add_one_by_one(const TileRun& run, std::uint64_t at, std::uint64_t count) {
    TileNumbers a;
    TileNumbers b;
    squares_ = add_squared_distance(numbers(run.inputs[0], at, count, a),
                                    numbers(run.inputs[1], at, count, b), squares_);
  }

  double& squared_distance_;
  double squares_ = 0;
  bool different_ = false;
  bool is_floating_ = true;
};

}  // namespace

std::unique_ptr<Consumer> pair_consumer(const tensor::Box& box, TileStats& into, CellSums* cell) {
  return std::make_unique<PairConsumer>(box, into, cell);
}

std::unique_ptr<Consumer> integer_consumer(const tensor::Box& box, TileStats& into) {
  return std::make_unique<IntegerConsumer>(box, into);
}

std::unique_ptr<Consumer> noise_consumer(const tensor::Box& box, NoiseSums& into,
                                         std::size_t cell) {
  return std::make_unique<NoiseConsumer>(box, into, cell);
}

std::unique_ptr<Consumer> replica_consumer(double& squared_distance) {
  return std::make_unique<ReplicaConsumer>(squared_distance);
}

TileResult as_result(const TileStats& stats) {
  TileResult result;
  result.d2 = stats.sum_d2;
  result.d = stats.sum_d;
  result.r2 = stats.sum_r2;
  result.c2 = stats.sum_c2;
  result.rc = stats.sum_rc;
  result.unequal = static_cast<std::uint32_t>(stats.unequal - stats.nonfinite_different);
  result.nonfinite_reference = static_cast<std::uint32_t>(stats.nonfinite_reference);
  result.nonfinite_candidate = static_cast<std::uint32_t>(stats.nonfinite_candidate);
  result.nonfinite_equal = static_cast<std::uint32_t>(stats.nonfinite_equal);
  result.nonfinite_different = static_cast<std::uint32_t>(stats.nonfinite_different);
  if (stats.first_nonfinite_difference) {
    result.first_different = static_cast<std::uint32_t>(stats.first_nonfinite_difference->front());
  }
  if (stats.largest) {
    result.largest = stats.largest->difference;
    result.reference_at = stats.largest->reference;
    result.candidate_at = stats.largest->candidate;
    result.largest_at = static_cast<std::uint32_t>(stats.largest->at.front());
  }
  return result;
}

namespace {

// Returns what the kernels give for a run, computed by `cpu`.
std::vector<TileResult> results_on_cpu(const Backend& cpu, const TileRun& run) {
  std::vector<TileResult> results;
  const std::unique_ptr<Batch> batch = cpu.new_batch();
  for (std::uint64_t first = 0; first < run.elements; first += kTile) {
    const tensor::Box box = tensor::whole({std::min<std::uint64_t>(kTile, run.elements - first)});
    const auto input = [&](std::size_t i) {
      const StoredValues& all = run.inputs[i];
      const std::size_t width = tensor::element_bytes(all.dtype);
      return InputBox{
          box, {all.bits.subspan(first * width, box.extent[0] * width), all.dtype, all.scale}};
    };
    TileStats stats;
    PairRequest request{input(0), input(1), box};
    request.stats = &stats;
    batch->add(request);
    batch->finish();
    results.push_back(as_result(stats));
  }
  return results;
}

}  // namespace

void Consumer::redo(const Backend& cpu, const TileRun& run) { take(run, results_on_cpu(cpu, run)); }

}  // namespace ttrace::measure::cuda
