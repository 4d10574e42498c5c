#include "synth/shard.h"

#include <algorithm>
#include <utility>

#include "layout/flat.h"
#include "tensor/codec.h"

namespace ttrace::synth {

Shard::Shard(const layout::Holding& held, const trace::TensorEntry& entry, Values values,
             Terms terms, bool dropped)
    : held_(&held),
      dtype_(entry.dtype),
      scale_(entry.scale),
      values_(std::move(values)),
      terms_(std::move(terms)),
      dropped_(dropped) {}

void Shard::make(const tensor::Box& slab, std::span<std::byte> out) const {
  if (!held_->range) return make_local(slab, out);
  const std::uint64_t start = held_->range->start + slab.origin[0];
  std::size_t done = 0;
  for (const tensor::Box& box : layout::flat_boxes(held_->shape, start, start + slab.extent[0])) {
    const std::size_t bytes = tensor::volume(box) * tensor::element_bytes(dtype_);
    make_local(box, out.subspan(done, bytes));
    done += bytes;
  }
}

void Shard::make_local(const tensor::Box& local, std::span<std::byte> out) const {
  thread_local std::vector<std::byte> piece;
  const std::size_t element = tensor::element_bytes(dtype_);
  for (const layout::Part& part : held_->parts) {
    const auto common = tensor::intersect(part.local, local);
    if (!common) continue;
    const tensor::Box global =
        tensor::shifted(tensor::relative_to(*common, part.local.origin), part.global.origin);
    if (*common == local) return make_global(global, out);
    piece.resize(tensor::volume(*common) * element);
    make_global(global, piece);
    tensor::copy_common(*common, piece, local, out, element);
  }
}

void Shard::make_global(const tensor::Box& global, std::span<std::byte> out) const {
  const std::size_t count = tensor::volume(global);
  if (!tensor::is_floating(dtype_)) {
    thread_local std::vector<std::int64_t> integers;
    integers.resize(count);
    values_.fill_integers(global, integers);
    return tensor::encode_integers(dtype_, integers, out);
  }
  thread_local std::vector<double> values;
  values.resize(count);
  if (dropped_) {
    std::fill(values.begin(), values.end(), 0.0);
    return tensor::encode_floats(dtype_, values, out);
  }
  values_.fill(global, values);
  if (scale_ != 1) {
    for (double& value : values) value /= scale_;
  }
  if (terms_.any()) {
    for (double& value : values) value = tensor::round_to(dtype_, value);
    terms_.split(global, values);
  }
  tensor::encode_floats(dtype_, values, out);
}

}  // namespace ttrace::synth
