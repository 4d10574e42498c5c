#include "measure/one_pass.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "measure/sections.h"

namespace ttrace::measure {
namespace {

// Hands every box that is read of a tensor to a function.
class WatchedReader final : public TensorReader {
 public:
  using Watch = std::function<void(const InputBox& values)>;

  WatchedReader(std::unique_ptr<TensorReader> tensor, Watch watch)
      : tensor_(std::move(tensor)), watch_(std::move(watch)) {}

  void read(const tensor::Box& box, std::span<double> out) override {
    tensor_->read(box, out);
    watch_({box, {std::as_bytes(out), tensor::DType::kFloat64, 1}});
  }
  std::optional<StoredValues> read_stored(const tensor::Box& box) override {
    auto stored = tensor_->read_stored(box);
    if (stored) watch_({box, *stored});
    return stored;
  }
  void read_integers(const tensor::Box& box, std::span<std::int64_t> out) override {
    tensor_->read_integers(box, out);
  }
  std::vector<RankBoxes> rank_boxes() const override { return tensor_->rank_boxes(); }
  std::optional<ElementPlace> locate(const tensor::Shape& point) const override {
    return tensor_->locate(point);
  }
  void for_each_check(const VisitCheck& visit) const override { tensor_->for_each_check(visit); }
  std::uint64_t bytes_read() const override { return tensor_->bytes_read(); }

 private:
  std::unique_ptr<TensorReader> tensor_;
  Watch watch_;
};

// Measures perturbed runs in the same boxes in which their reference is read.
class NoiseMeasuring {
 public:
  NoiseMeasuring(const std::vector<TensorRef>& runs, const Grid& grid) : grid_(grid) {
    for (const TensorRef& run : runs) {
      readers_.emplace_back(run.open(Replicas::kFirstOnly));
      noise_.runs.push_back({std::vector<CellSums>(grid.cells())});
    }
  }

  // Skips boxes that are larger than those in which noise is measured.
  void add_to(Batch& batch, const InputBox& reference) {
    if (tensor::volume(reference.box) > kReadElements) {
      complete_ = false;
      return;
    }
    NoiseRequest request{reference, {}, reference.box, &grid_, noise_.runs.data()};
    for (BoxReader& reader : readers_) request.runs.push_back(reader.read(reference.box));
    batch.add(request);
  }

  // Whether a run has other bits in the reference's box.
  bool differs(const InputBox& reference) {
    return std::any_of(readers_.begin(), readers_.end(), [&](BoxReader& reader) {
      const StoredValues& run = reader.read(reference.box).values;
      return run.dtype != reference.values.dtype ||
             !std::equal(run.bits.begin(), run.bits.end(), reference.values.bits.begin(),
                         reference.values.bits.end());
    });
  }

  bool is_complete() const { return complete_; }

  NoiseSection take() {
    for (const BoxReader& reader : readers_) noise_.bytes_read += reader.tensor().bytes_read();
    return std::move(noise_);
  }

 private:
  const Grid& grid_;
  std::vector<BoxReader> readers_;
  NoiseSection noise_;
  bool complete_ = true;
};

// In sections of fewer elements than this, the caller decides by `by_grid` without a first look.
constexpr std::uint64_t kFewElements = 4 * kReadElements;

bool differs_at_first(const TensorRef& reference, NoiseMeasuring& noise,
                      const tensor::Box& section) {
  tensor::Box first = section;
  for (std::size_t d = 0; d < first.extent.size() && tensor::volume(first) > kReadElements; ++d) {
    const std::uint64_t inner = tensor::volume(first) / first.extent[d];
    first.extent[d] = std::max<std::uint64_t>(1, kReadElements / inner);
  }
  BoxReader reader(reference.open(Replicas::kFirstOnly));
  return noise.differs(reader.read(first));
}

}  // namespace

SectionWithNoise measure_with_noise(const Backend& backend, const TensorRef& reference,
                                    const TensorRef& candidate, const std::vector<TensorRef>& runs,
                                    const Grid& grid, const tensor::Box& section, bool by_grid) {
  const Grid single(grid.shape(), tensor::Shape(grid.shape().size(), 1));
  const std::unique_ptr<Batch> batch = backend.new_batch();
  NoiseMeasuring noise(runs, grid);
  if (tensor::volume(section) >= kFewElements) {
    by_grid = differs_at_first(reference, noise, section);
  }
  TensorRef watched = reference;
  watched.opener = [&](Replicas replicas) {
    return std::make_unique<WatchedReader>(
        reference.open(replicas), [&](const InputBox& values) { noise.add_to(*batch, values); });
  };
  SectionMeasuring measuring(backend, watched, candidate, by_grid ? &grid : &single);
  measuring.add_to(*batch, section);
  batch->finish();
  SectionWithNoise both{measuring.take(), {}, by_grid};
  both.noise = noise.is_complete() ? noise.take()
                                   : measure_noise_section(backend, reference, runs, grid, section);
  return both;
}

}  // namespace ttrace::measure
