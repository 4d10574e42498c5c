// Adds up results of updates. The device gives what does not depend on the order of elements, and
// the worst update where it is certainly that of the CPU.
#include "measure/cuda/update_consumer.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "measure/cuda/consumers.h"
#include "tensor/box.h"

namespace ttrace::measure::cuda {
namespace {

// Ratios that are further apart than this compare the same after any rounding.
constexpr double kClearlyAbove = 1 + 0x1p-40;

// Where the worst update lies once this tile is added. The CPU carries the worst ratio from tile to
// tile; the device starts every tile with a ratio of 0.
enum class WorstOf { kEarlierTile, kThisTile, kUnclear };

WorstOf worst_of(const UpdateResult& tile, double so_far) {
  if (tile.ratio == 0) return WorstOf::kEarlierTile;
  if (so_far == 0) return WorstOf::kThisTile;
  if (tile.tiny > 0) return WorstOf::kUnclear;
  if (tile.ratio * kClearlyAbove < so_far) return WorstOf::kEarlierTile;
  const bool above =
      tile.ratio > so_far * kClearlyAbove && tile.ratio > tile.before * kClearlyAbove;
  return above ? WorstOf::kThisTile : WorstOf::kUnclear;
}

// Staged inputs of an update: updated, parameter, gradient, momentum_buffer or exp_avg, exp_avg_sq,
// max_exp_avg_sq; absent ones have no bits.
constexpr std::size_t kUpdated = 0;
constexpr std::size_t kParameter = 1;
constexpr std::size_t kGradient = 2;
constexpr std::size_t kState = 3;
constexpr std::size_t kSquares = 4;
constexpr std::size_t kLargestSquares = 5;

class UpdateConsumer : public Consumer {
 public:
  UpdateConsumer(const Backend& cpu, const UpdateRequest& request)
      : cpu_(cpu),
        box_(request.updated.box),
        step_(request.step),
        has_buffer_(request.momentum_buffer.has_value()),
        into_(*request.stats),
        sums_(*request.sums) {}

  void take(const TileRun& run, std::span<const TileResult> results) override {
    for (std::uint64_t tile = 0; tile < run.tiles(); ++tile) {
      const auto judged = std::bit_cast<UpdateResult>(results[2 * tile + 1]);
      add(run, tile, results[2 * tile], judged);
      switch (worst_of(judged, sums_.worst ? sums_.worst->ratio : 0)) {
        case WorstOf::kEarlierTile:
          break;
        case WorstOf::kThisTile:
          sums_.worst = WorstUpdate{judged.ratio,   place(run, tile, judged.at),
                                    std::nullopt,   judged.replayed,
                                    judged.updated, judged.bound};
          break;
        case WorstOf::kUnclear:
          take_worst(run, tile, on_cpu(run, tile));
      }
    }
  }

  void redo(const Backend&, const TileRun& run) override {
    for (std::uint64_t tile = 0; tile < run.tiles(); ++tile) {
      const OnCpu done = on_cpu(run, tile);
      UpdateResult judged;
      judged.bound2 = done.sums.sum_bound2;
      judged.unjudged = static_cast<std::uint32_t>(done.sums.unjudged);
      judged.unmoved = static_cast<std::uint32_t>(done.sums.unmoved);
      judged.outside =
          static_cast<std::uint32_t>(done.stats.unequal - done.stats.nonfinite_different);
      add(run, tile, as_result(done.stats), judged);
      take_worst(run, tile, done);
    }
  }

  void end() override {
    stats_.unequal = stats_.nonfinite_different + outside_;
    into_.merge(stats_);
  }

 private:
  // One tile, going on from the worst update so far.
  struct OnCpu {
    TileStats stats;
    UpdateSums sums;
  };

  static std::uint64_t count_of(const TileRun& run, std::uint64_t tile) {
    return std::min<std::uint64_t>(kTile, run.elements - tile * kTile);
  }

  tensor::Shape place(const TileRun& run, std::uint64_t tile, std::uint64_t at) const {
    return tensor::coordinates(box_, run.first + tile * kTile + at);
  }

  // Adds the sums and counts, which do not depend on the tiles before.
  void add(const TileRun& run, std::uint64_t tile, const TileResult& pair,
           const UpdateResult& judged) {
    add_result(pair, count_of(run, tile), box_, run.first + tile * kTile, stats_);
    outside_ += judged.outside;
    sums_.unjudged += judged.unjudged;
    sums_.unmoved += judged.unmoved;
    sums_.sum_bound2 += judged.bound2;
  }

  OnCpu on_cpu(const TileRun& run, std::uint64_t tile) const {
    const tensor::Box box = tensor::whole({count_of(run, tile)});
    const auto input = [&](std::size_t i) -> std::optional<InputBox> {
      const StoredValues& all = run.inputs[i];
      if (all.bits.empty()) return std::nullopt;
      const std::size_t width = tensor::element_bytes(all.dtype);
      return InputBox{
          box,
          {all.bits.subspan(tile * kTile * width, box.extent[0] * width), all.dtype, all.scale}};
    };
    OnCpu done;
    if (sums_.worst) done.sums.worst = WorstUpdate{sums_.worst->ratio, {}, {}, 0, 0, 0};
    UpdateRequest request{
        *input(kUpdated), *input(kParameter), input(kGradient), {}, {}, {}, {}, step_,
        &done.stats,      &done.sums};
    (has_buffer_ ? request.momentum_buffer : request.exp_avg) = input(kState);
    request.exp_avg_sq = input(kSquares);
    request.max_exp_avg_sq = input(kLargestSquares);
    const std::unique_ptr<Batch> batch = cpu_.new_batch();
    batch->add(request);
    batch->finish();
    return done;
  }

  void take_worst(const TileRun& run, std::uint64_t tile, const OnCpu& done) {
    // If the worst update has no coordinates, it lies in an earlier tile and stays the worst.
    if (!done.sums.worst || done.sums.worst->at.empty()) return;
    const std::uint64_t at = done.sums.worst->at.front();
    sums_.worst = done.sums.worst;
    sums_.worst->at = place(run, tile, at);
  }

  const Backend& cpu_;
  tensor::Box box_;
  UpdateStep step_;
  bool has_buffer_;
  TileStats& into_;
  UpdateSums& sums_;
  TileStats stats_;
  std::uint64_t outside_ = 0;
};

}  // namespace

std::unique_ptr<Consumer> update_consumer(const Backend& cpu, const UpdateRequest& request) {
  return std::make_unique<UpdateConsumer>(cpu, request);
}

}  // namespace ttrace::measure::cuda
