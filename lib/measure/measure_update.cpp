#include "measure/measure_update.h"

#include <cmath>
#include <limits>

#include "measure/box_stats.h"
#include "measure/tensor_reader.h"

namespace ttrace::measure {
namespace {

// Of up to eight tensors at once: 4 MiB of doubles a thread.
constexpr std::uint64_t kUpdateSlabElements = std::uint64_t{1} << 16;

// One of the tensors, or nothing.
class Operand {
 public:
  explicit Operand(const TensorRef& tensor) {
    if (tensor.view == nullptr) return;
    reader_ = tensor.open(Replicas::kFirstOnly);
  }

  std::span<const double> read(const tensor::Box& slab) {
    if (reader_ == nullptr) return {};
    values_.resize(tensor::volume(slab));
    reader_->read(slab, values_);
    return values_;
  }

  const TensorReader& reader() const { return *reader_; }
  std::uint64_t bytes_read() const { return reader_ == nullptr ? 0 : reader_->bytes_read(); }

 private:
  std::unique_ptr<TensorReader> reader_;
  std::vector<double> values_;
};

class UpdateMeasuring {
 public:
  UpdateMeasuring(const UpdateTensors& tensors, const UpdateStep& step)
      : step_(step),
        after_(tensors.after),
        parameter_(tensors.parameter),
        gradient_(tensors.gradient),
        momentum_buffer_(tensors.momentum_buffer),
        exp_avg_(tensors.exp_avg),
        exp_avg_sq_(tensors.exp_avg_sq),
        max_exp_avg_sq_(tensors.max_exp_avg_sq) {}

  UpdateMeasurement run() {
    for (Region& region : after_.reader().regions()) {
      BlockStats here{std::move(region.boxes), std::move(region.ranks), {}, std::move(region.part)};
      for (const tensor::Box& box : here.boxes) {
        tensor::for_each_sub_box(box, kUpdateSlabElements,
                                 [&](const tensor::Box& slab) { measure_slab(slab, here.stats); });
      }
      result_.total.merge(here.stats);
      result_.blocks.push_back(std::move(here));
    }
    if (const auto& largest = result_.total.largest) {
      result_.largest_place = after_.reader().locate(largest->at);
    }
    if (result_.worst) result_.worst->place = after_.reader().locate(result_.worst->at);
    for (const Operand* operand : {&after_, &parameter_, &gradient_, &momentum_buffer_, &exp_avg_,
                                   &exp_avg_sq_, &max_exp_avg_sq_}) {
      result_.bytes_read += operand->bytes_read();
    }
    return std::move(result_);
  }

 private:
  void measure_slab(const tensor::Box& slab, TileStats& into) {
    const std::span<const double> candidate = after_.read(slab);
    const Inputs inputs{parameter_.read(slab),       gradient_.read(slab), step_.clip,
                        momentum_buffer_.read(slab), exp_avg_.read(slab),  exp_avg_sq_.read(slab),
                        max_exp_avg_sq_.read(slab)};
    replayed_.resize(candidate.size());
    bounds_.resize(candidate.size());
    replay(step_.hyperparameters, step_.rounding, inputs, replayed_, bounds_);
    TileStats stats = slab_stats(slab, replayed_, candidate);
    stats.unequal = stats.nonfinite_different + judge_elements(slab, inputs.parameter, candidate);
    into.merge(stats);
  }

  // How many finite elements are out of bounds.
  std::uint64_t judge_elements(const tensor::Box& slab, std::span<const double> parameter,
                               std::span<const double> candidate) {
    std::uint64_t outside = 0;
    for (std::size_t i = 0; i < candidate.size(); ++i) {
      const double q = replayed_[i];
      const double c = candidate[i];
      if (!std::isfinite(q) || !std::isfinite(c)) continue;
      const double difference = std::abs(c - q);
      const double bound = bounds_[i];
      if (!std::isfinite(bound)) {
        ++result_.unjudged;
        continue;
      }
      result_.sum_bound2 += bound * bound;
      if (difference > bound) {
        ++outside;
        result_.unmoved += c == parameter[i] ? 1 : 0;
      }
      // Without dividing: most elements are not the worst so far.
      if (!(difference > worst_ratio_ * bound)) continue;
      worst_ratio_ = bound > 0 ? difference / bound : std::numeric_limits<double>::infinity();
      result_.worst =
          WorstUpdate{worst_ratio_, tensor::coordinates(slab, i), std::nullopt, q, c, bound};
    }
    return outside;
  }

  const UpdateStep& step_;
  Operand after_;
  Operand parameter_;
  Operand gradient_;
  Operand momentum_buffer_;
  Operand exp_avg_;
  Operand exp_avg_sq_;
  Operand max_exp_avg_sq_;
  std::vector<double> replayed_;
  std::vector<double> bounds_;
  double worst_ratio_ = 0;
  UpdateMeasurement result_;
};

}  // namespace

UpdateMeasurement measure_update(const UpdateTensors& tensors, const UpdateStep& step) {
  return UpdateMeasuring(tensors, step).run();
}

double squared_norm(const TensorRef& tensor) {
  const auto reader = make_reader(*tensor.source, *tensor.view, Replicas::kFirstOnly);
  std::vector<double> values;
  double squares = 0;
  tensor::for_each_sub_box(tensor::whole(tensor.view->shape), kUpdateSlabElements,
                           [&](const tensor::Box& slab) {
                             values.resize(tensor::volume(slab));
                             reader->read(slab, values);
                             for (const double x : values) squares += std::isfinite(x) ? x * x : 0;
                           });
  return squares;
}

}  // namespace ttrace::measure
