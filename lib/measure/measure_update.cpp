#include "measure/measure_update.h"

#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "measure/sections.h"

namespace ttrace::measure {
namespace {

// Reads one of the tensors, or nothing where it does not exist.
class Operand {
 public:
  explicit Operand(const TensorRef& tensor) {
    if (tensor.view != nullptr) reader_.emplace(tensor.open(Replicas::kFirstOnly));
  }

  std::optional<InputBox> read(const tensor::Box& box) {
    return reader_ ? std::optional(reader_->read(box)) : std::nullopt;
  }
  std::uint64_t bytes_read() const { return reader_ ? reader_->tensor().bytes_read() : 0; }

 private:
  std::optional<BoxReader> reader_;
};

}  // namespace

UpdateMeasurement measure_update_section(const Backend& backend, const UpdateTensors& tensors,
                                         const UpdateStep& step, const tensor::Box& section) {
  BoxReader after(tensors.after.open(Replicas::kFirstOnly));
  BoxReader parameter(tensors.parameter.open(Replicas::kFirstOnly));
  Operand gradient(tensors.gradient);
  Operand momentum_buffer(tensors.momentum_buffer);
  Operand exp_avg(tensors.exp_avg);
  Operand exp_avg_sq(tensors.exp_avg_sq);
  Operand max_exp_avg_sq(tensors.max_exp_avg_sq);

  UpdateMeasurement result;
  for (RankBoxes& owner : after.tensor().rank_boxes()) {
    result.blocks.push_back({std::move(owner), {}});
  }
  UpdateSums sums;
  const std::unique_ptr<Batch> batch = backend.new_batch();
  for (BlockStats& block : result.blocks) {
    for (const tensor::Box& whole : block.owner->boxes) {
      const auto here = tensor::intersect(whole, section);
      if (!here) continue;
      tensor::for_each_sub_box(*here, kReadElements, [&](const tensor::Box& box) {
        batch->add(UpdateRequest{after.read(box), parameter.read(box), gradient.read(box),
                                 momentum_buffer.read(box), exp_avg.read(box), exp_avg_sq.read(box),
                                 max_exp_avg_sq.read(box), step, &block.stats, &sums});
      });
    }
  }
  batch->finish();

  for (const BlockStats& block : result.blocks) result.total.merge(block.stats);
  result.unmoved = sums.unmoved;
  result.unjudged = sums.unjudged;
  result.sum_bound2 = sums.sum_bound2;
  result.worst = std::move(sums.worst);
  if (const auto& largest = result.total.largest) {
    result.largest_place = after.tensor().locate(largest->at);
  }
  if (result.worst) result.worst->place = after.tensor().locate(result.worst->at);
  result.bytes_read = after.tensor().bytes_read() + parameter.tensor().bytes_read();
  for (const Operand* operand :
       {&gradient, &momentum_buffer, &exp_avg, &exp_avg_sq, &max_exp_avg_sq}) {
    result.bytes_read += operand->bytes_read();
  }
  return result;
}

UpdateMeasurement merge_sections(std::vector<UpdateMeasurement> sections) {
  UpdateMeasurement whole = std::move(sections.front());
  // The place of every section's largest difference; one of them is the largest of all.
  std::map<tensor::Shape, std::optional<ElementPlace>> places;
  const auto note_place = [&](UpdateMeasurement& section) {
    if (section.total.largest) {
      places.emplace(section.total.largest->at, std::move(section.largest_place));
    }
  };
  note_place(whole);
  for (std::size_t s = 1; s < sections.size(); ++s) {
    UpdateMeasurement& later = sections[s];
    note_place(later);
    for (std::size_t b = 0; b < whole.blocks.size(); ++b) {
      whole.blocks[b].stats.merge(later.blocks[b].stats);
    }
    whole.unmoved += later.unmoved;
    whole.unjudged += later.unjudged;
    whole.sum_bound2 += later.sum_bound2;
    if (later.worst && (!whole.worst || later.worst->ratio > whole.worst->ratio)) {
      whole.worst = std::move(later.worst);
    }
    whole.bytes_read += later.bytes_read;
  }
  whole.total = {};
  for (const BlockStats& block : whole.blocks) whole.total.merge(block.stats);
  if (const auto& largest = whole.total.largest) whole.largest_place = places.at(largest->at);
  return whole;
}

double squared_norm(const TensorRef& tensor) {
  const auto reader = make_reader(*tensor.source, *tensor.view, Replicas::kFirstOnly);
  std::vector<double> values;
  double squares = 0;
  tensor::for_each_sub_box(tensor::whole(tensor.view->shape), kReadElements,
                           [&](const tensor::Box& box) {
                             values.resize(tensor::volume(box));
                             reader->read(box, values);
                             for (const double x : values) squares += std::isfinite(x) ? x * x : 0;
                           });
  return squares;
}

}  // namespace ttrace::measure
