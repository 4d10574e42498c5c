#include "synth/dataset.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "layout/axis_view.h"
#include "synth/random.h"
#include "tensor/codec.h"
#include "trace/placements/flat.h"

namespace ttrace::synth {
namespace {

using tensor::DType;

struct Precision {
  int digits = 0;    // of the significand
  int smallest = 0;  // exponent of the smallest normal number
};

Precision precision_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return {53, -1022};
    case DType::kFloat32:
      return {24, -126};
    case DType::kFloat16:
      return {11, -14};
    case DType::kBFloat16:
      return {8, -126};
    case DType::kFloat8E4M3:
      return {4, -6};
    case DType::kFloat8E5M2:
      return {3, -14};
    default:
      throw base::internal_error("terms of ", tensor::dtype_name(dtype));
  }
}

// Uniform in [-2^k, 2^k) with k = digits - 3, at most 21.
std::int64_t share(std::uint32_t word, int digits) {
  const auto number = static_cast<std::int64_t>(static_cast<std::int32_t>(word));
  return number >> (31 - std::min(digits - 3, 21));
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kLargestChunkExtent = (std::uint64_t{1} << 31) - 1;

std::uint64_t volume_of(const tensor::Shape& extents) {
  return tensor::volume(tensor::whole(extents));
}

// Halves the outer dimensions first, so that rows stay whole if possible.
tensor::Shape automatic_chunk(const tensor::Shape& shape, tensor::DType dtype) {
  tensor::Shape chunk = shape;
  for (std::uint64_t& extent : chunk) {
    while (extent > 1 && volume_of(chunk) * tensor::element_bytes(dtype) > kChunkBytes) {
      extent = (extent + 1) / 2;
    }
  }
  return chunk;
}

}  // namespace

Terms::Terms(std::uint64_t seed, const trace::TensorEntry& entry, const trace::Mesh& mesh,
             const std::vector<std::uint64_t>& coordinates, const std::string& path)
    : shape_(entry.shape), dtype_(entry.dtype) {
  const std::vector<layout::AxisView> views = layout::axis_views(entry, mesh);
  for (std::size_t a = 0; a < views.size(); ++a) {
    const auto* partial = std::get_if<trace::Partial>(views[a].placement);
    if (partial == nullptr) continue;
    const auto& held = views[a].held;
    const auto at = std::lower_bound(held.begin(), held.end(), coordinates[a]) - held.begin();
    count_ *= held.size();
    number_ = number_ * held.size() + static_cast<std::uint64_t>(at);
    if (partial->reduction == trace::Reduction::kSum) summed_ *= held.size();
    maximum_ = maximum_ || partial->reduction == trace::Reduction::kMax;
  }
  const auto stream = [&](std::uint64_t term) {
    return Stream::of_synthetic(seed, base::concat("synth_part ", term), path);
  };
  here_ = stream(number_);
  next_ = maximum_ ? stream(count_) : stream((number_ + 1) % count_);
}

double Terms::term(double whole, std::int64_t here, std::int64_t next) const {
  if (!std::isfinite(whole)) return whole;
  const Precision precision = precision_of(dtype_);
  const int exponent =
      whole == 0 ? precision.smallest : std::max(std::ilogb(whole), precision.smallest);
  const int unit = exponent - (precision.digits - 1);
  const auto multiple = static_cast<std::int64_t>(std::ldexp(whole, -unit));
  if (maximum_) {
    const double lower = std::ldexp(static_cast<double>(multiple - std::abs(here)), unit);
    const double rounded = tensor::round_to(dtype_, lower);
    return std::isfinite(rounded) ? rounded : whole;
  }
  const auto summed = static_cast<std::int64_t>(summed_);
  std::int64_t term = floor_div(multiple + static_cast<std::int64_t>(number_ % summed_), summed);
  const std::int64_t most = std::int64_t{3} << (precision.digits - 2);
  if (summed_ > 1 || std::abs(multiple) <= most) term += here - next;
  return std::ldexp(static_cast<double>(term), unit);
}

void Terms::split(const tensor::Box& box, std::span<double> values) const {
  thread_local std::vector<std::uint32_t> here;
  thread_local std::vector<std::uint32_t> next;
  here.resize(values.size());
  next.resize(values.size());
  fill_words(here_, shape_, box, here);
  fill_words(next_, shape_, box, next);
  const int digits = precision_of(dtype_).digits;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (maximum_ && next[i] % count_ == number_) continue;
    values[i] = term(values[i], share(here[i], digits), share(next[i], digits));
  }
}

RankDataset::RankDataset(const layout::LocalLayout& held, const trace::TensorEntry& entry,
                         Values values, Terms terms, bool dropped)
    : held_(&held),
      dtype_(entry.dtype),
      scale_(entry.scale),
      values_(std::move(values)),
      terms_(std::move(terms)),
      dropped_(dropped) {}

void RankDataset::make(const tensor::Box& box, std::span<std::byte> out) const {
  if (!held_->range) return make_local(box, out);
  const std::uint64_t start = held_->range->start + box.origin[0];
  std::size_t done = 0;
  for (const tensor::Box& local : trace::flat_boxes(held_->shape, start, start + box.extent[0])) {
    const std::size_t bytes = tensor::volume(local) * tensor::element_bytes(dtype_);
    make_local(local, out.subspan(done, bytes));
    done += bytes;
  }
}

void RankDataset::make_local(const tensor::Box& local, std::span<std::byte> out) const {
  thread_local std::vector<std::byte> bytes;
  const std::size_t element = tensor::element_bytes(dtype_);
  for (const layout::Part& part : held_->parts) {
    const auto common = tensor::intersect(part.local, local);
    if (!common) continue;
    const tensor::Box global =
        tensor::shifted(tensor::relative_to(*common, part.local.origin), part.global.origin);
    if (*common == local) return make_global(global, out);
    bytes.resize(tensor::volume(*common) * element);
    make_global(global, bytes);
    tensor::copy_common(*common, bytes, local, out, element);
  }
}

void RankDataset::make_global(const tensor::Box& global, std::span<std::byte> out) const {
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

trace::Storage storage_for(const trace::Storage& wanted, const tensor::Shape& shape,
                           tensor::DType dtype) {
  trace::Storage storage = wanted;
  storage.chunk.clear();
  const bool filtered = wanted.deflate || wanted.shuffle;
  const bool cut = !wanted.chunk.empty() || filtered;
  if (!cut || shape.empty() || volume_of(shape) == 0) {
    storage.deflate.reset();
    storage.shuffle = false;
    return storage;
  }
  if (wanted.chunk.size() == shape.size()) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      storage.chunk.push_back(std::min(wanted.chunk[d], shape[d]));
    }
  } else if (!wanted.chunk.empty()) {  // a range of a flattened shard
    storage.chunk = {std::min(volume_of(wanted.chunk), shape[0])};
  } else {
    storage.chunk = automatic_chunk(shape, dtype);
  }
  for (std::uint64_t& extent : storage.chunk) extent = std::min(extent, kLargestChunkExtent);
  return storage;
}

void for_each_write_box(const tensor::Shape& shape, const trace::Storage& storage,
                        std::uint64_t limit, const std::function<void(const tensor::Box&)>& visit) {
  if (storage.chunk.empty()) return tensor::for_each_sub_box(tensor::whole(shape), limit, visit);
  // Combine neighbouring chunks, along the last dimensions first, because those are contiguous.
  tensor::Shape step = storage.chunk;
  for (std::size_t d = step.size(); d-- > 0;) {
    const std::uint64_t others = volume_of(step) / step[d];
    const std::uint64_t chunks = std::max<std::uint64_t>(limit / others / storage.chunk[d], 1);
    const std::uint64_t needed = (shape[d] - 1) / storage.chunk[d] + 1;
    step[d] = storage.chunk[d] * std::min(chunks, needed);
    if (chunks < needed) break;
  }
  tensor::Shape grid;
  for (std::size_t d = 0; d < shape.size(); ++d) grid.push_back((shape[d] - 1) / step[d] + 1);
  tensor::for_each_sub_box(tensor::whole(grid), 1, [&](const tensor::Box& cell) {
    tensor::Box box = cell;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      box.origin[d] = cell.origin[d] * step[d];
      box.extent[d] = std::min(step[d], shape[d] - box.origin[d]);
    }
    visit(box);
  });
}

}  // namespace ttrace::synth
