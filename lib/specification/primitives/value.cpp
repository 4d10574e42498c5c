#include "specification/primitives/value.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace ttrace::specification {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// The bytes of all values, those that are kept for later ones included.
struct Budget {
  std::atomic<std::uint64_t> most{kNoLimit};
  std::atomic<std::uint64_t> used{0};

  bool charge(std::uint64_t bytes) {
    if (used.fetch_add(bytes) + bytes <= most) return true;
    used -= bytes;
    return false;
  }
};

Budget& budget() {
  static Budget all;
  return all;
}

// Memory of large values, kept for the next value of the same size: the kernel's work for fresh
// pages costs as much as most operations on them.
class KeptMemory {
 public:
  std::shared_ptr<double[]> take(std::uint64_t count) {
    const bool small = count < kFewest;
    std::unique_ptr<double[]> memory = small ? nullptr : find(count);
    if (!memory) {
      charge(count * sizeof(double));
      memory = std::make_unique_for_overwrite<double[]>(count);
    }
    if (small) {
      return {memory.release(), [count](double* elements) { drop(elements, count); }};
    }
    return {memory.release(),
            [this, count](double* elements) { give(std::unique_ptr<double[]>(elements), count); }};
  }

  void drop_kept() {
    const std::lock_guard lock(mutex_);
    for (FreeBlock& block : blocks_) drop(block.memory.release(), block.count);
    blocks_.clear();
    held_ = 0;
  }

 private:
  static void drop(double* elements, std::uint64_t count) {
    delete[] elements;
    budget().used -= count * sizeof(double);
  }

  void charge(std::uint64_t bytes) {
    if (budget().charge(bytes)) return;
    drop_kept();
    if (budget().charge(bytes)) return;
    throw base::input_error("needs more than ", base::human_bytes(budget().most),
                            " of memory; allow more with --memory");
  }

  static constexpr std::uint64_t kFewest = std::uint64_t{1} << 13U;
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 24U;  // 128 MiB

  struct FreeBlock {
    std::uint64_t count;
    std::unique_ptr<double[]> memory;
  };

  std::unique_ptr<double[]> find(std::uint64_t count) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(blocks_.begin(), blocks_.end(),
                                    [&](const FreeBlock& block) { return block.count == count; });
    if (found == blocks_.end()) return nullptr;
    std::unique_ptr<double[]> memory = std::move(found->memory);
    held_ -= count;
    blocks_.erase(found);
    return memory;
  }

  void give(std::unique_ptr<double[]> memory, std::uint64_t count) {
    const std::lock_guard lock(mutex_);
    blocks_.push_front({count, std::move(memory)});
    held_ += count;
    while (held_ > kMost) {
      held_ -= blocks_.back().count;
      drop(blocks_.back().memory.release(), blocks_.back().count);
      blocks_.pop_back();
    }
  }

  std::mutex mutex_;
  std::list<FreeBlock> blocks_;  // the last given first
  std::uint64_t held_ = 0;       // elements
};

KeptMemory& kept_memory() {
  static KeptMemory kept;
  return kept;
}

std::shared_ptr<double[]> memory_of(std::uint64_t count) {
  return kept_memory().take(std::max<std::uint64_t>(count, 1));
}

std::vector<std::int64_t> row_major(const tensor::Shape& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= static_cast<std::int64_t>(std::max<std::uint64_t>(shape[d], 1));
  }
  return strides;
}

std::uint64_t checked_count(const tensor::Shape& shape) {
  const auto count = tensor::byte_count(shape, tensor::DType::kFloat64);
  if (!count)
    throw base::input_error("a tensor of shape ", tensor::to_string(shape), " is too large");
  return *count / sizeof(double);
}

// Strides that give the elements of `shape` and `strides` another shape, or nothing: every run of
// dimensions that lie in row-major order can be cut anew.
std::optional<std::vector<std::int64_t>> recut(const tensor::Shape& shape,
                                               std::span<const std::int64_t> strides,
                                               const tensor::Shape& wanted) {
  std::vector<std::int64_t> result(wanted.size(), 0);
  std::size_t from = 0;
  std::size_t to = 0;
  while (from < shape.size() && to < wanted.size()) {
    std::uint64_t held = shape[from];
    std::uint64_t cut = wanted[to];
    std::size_t from_end = from + 1;
    std::size_t to_end = to + 1;
    while (held != cut) {
      if (held < cut) {
        if (from_end == shape.size()) return std::nullopt;
        held *= shape[from_end++];
      } else {
        if (to_end == wanted.size()) return std::nullopt;
        cut *= wanted[to_end++];
      }
    }
    std::int64_t stride = 0;
    std::int64_t expected = 0;
    bool any = false;
    for (std::size_t d = from_end; d-- > from;) {
      if (shape[d] == 1) continue;
      if (any && strides[d] != expected) return std::nullopt;
      if (!any) stride = strides[d];
      any = true;
      expected = strides[d] * static_cast<std::int64_t>(shape[d]);
    }
    for (std::size_t d = to_end; d-- > to;) {
      result[d] = stride;
      stride *= static_cast<std::int64_t>(wanted[d]);
    }
    from = from_end;
    to = to_end;
  }
  return result;  // what is left over has extents of 1
}

}  // namespace

ValueMemoryLimit::ValueMemoryLimit(std::uint64_t most_bytes) {
  kept_memory().drop_kept();  // kept memory was not counted against this limit
  budget().most = most_bytes;
}
ValueMemoryLimit::~ValueMemoryLimit() { budget().most = kNoLimit; }

Value::Value() : elements_(std::make_shared<double[]>(1)) {}

Value Value::uninitialised(tensor::Shape shape) {
  Value value;
  const std::uint64_t count = checked_count(shape);
  value.shape_ = std::move(shape);
  value.strides_ = row_major(value.shape_);
  value.elements_ = memory_of(count);
  value.settle();
  return value;
}

Value Value::zeros(tensor::Shape shape) {
  Value value = uninitialised(std::move(shape));
  std::fill(value.fresh(), value.fresh() + value.size(), 0.0);
  return value;
}

Value Value::copy() const {
  const Value dense = to_dense();
  Value copied = uninitialised(shape_);
  std::copy(dense.elements().begin(), dense.elements().end(), copied.fresh());
  return copied;
}

Value Value::of(tensor::Shape shape, std::vector<double> elements) {
  Value value = uninitialised(std::move(shape));
  if (elements.size() != value.size()) throw base::internal_error("elements do not fill the shape");
  std::copy(elements.begin(), elements.end(), value.fresh());
  return value;
}

Value Value::full(tensor::Shape shape, double element) {
  Value value;
  checked_count(shape);
  value.shape_ = std::move(shape);
  value.strides_.assign(value.shape_.size(), 0);
  value.elements_[0] = element;
  value.settle();
  return value;
}

void Value::settle() {
  size_ = 1;
  for (const std::uint64_t extent : shape_) size_ *= extent;
  dense_ = true;
  std::int64_t expected = 1;
  for (std::size_t d = shape_.size(); d-- > 0;) {
    if (shape_[d] == 1) continue;
    if (strides_[d] != expected) dense_ = false;
    expected *= static_cast<std::int64_t>(shape_[d]);
  }
  if (size_ == 0) dense_ = true;
}

double Value::at(std::uint64_t index) const {
  std::int64_t offset = 0;
  for (std::size_t d = shape_.size(); d-- > 0;) {
    offset += static_cast<std::int64_t>(index % shape_[d]) * strides_[d];
    index /= shape_[d];
  }
  return data()[offset];
}

Value Value::to_dense() const {
  if (dense_) return *this;
  Value copy = uninitialised(shape_);
  double* out = copy.fresh();
  const double* in = data();
  const std::size_t last = shape_.size() - 1;  // a 0-d value is dense
  const std::uint64_t inner = shape_[last];
  const std::int64_t stride = strides_[last];
  std::vector<std::uint64_t> at(last, 0);
  std::int64_t offset = 0;
  for (std::uint64_t row = 0; row < size_ / inner; ++row) {
    for (std::uint64_t i = 0; i < inner; ++i)
      *out++ = in[offset + static_cast<std::int64_t>(i) * stride];
    for (std::size_t d = last; d-- > 0;) {
      offset += strides_[d];
      if (++at[d] < shape_[d]) break;
      offset -= strides_[d] * static_cast<std::int64_t>(shape_[d]);
      at[d] = 0;
    }
  }
  return copy;
}

Value Value::reshaped(tensor::Shape shape) const {
  Value view = *this;
  if (dense_) {
    view.strides_ = row_major(shape);
  } else if (auto strides = recut(shape_, strides_, shape)) {
    view.strides_ = std::move(*strides);
  } else {
    view = to_dense();
    view.strides_ = row_major(shape);
  }
  view.shape_ = std::move(shape);
  view.settle();
  return view;
}

Value Value::permuted(std::span<const std::size_t> dims) const {
  Value view = *this;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    view.shape_[d] = shape_[dims[d]];
    view.strides_[d] = strides_[dims[d]];
  }
  view.settle();
  return view;
}

Value Value::expanded(const tensor::Shape& shape) const {
  checked_count(shape);
  Value view = *this;
  view.shape_ = shape;
  view.strides_.assign(shape.size(), 0);
  const std::size_t added = shape.size() - shape_.size();
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    if (shape_[d] == shape[added + d]) view.strides_[added + d] = strides_[d];
  }
  view.settle();
  return view;
}

Value Value::sliced(std::size_t dim, std::uint64_t start, std::uint64_t stop,
                    std::uint64_t step) const {
  Value view = *this;
  view.offset_ += static_cast<std::int64_t>(start) * strides_[dim];
  view.shape_[dim] = stop > start ? (stop - start - 1) / step + 1 : 0;
  view.strides_[dim] *= static_cast<std::int64_t>(step);
  view.settle();
  return view;
}

Value Value::flipped(std::span<const std::size_t> dims) const {
  Value view = *this;
  for (const std::size_t dim : dims) {
    if (shape_[dim] == 0) continue;
    view.offset_ += static_cast<std::int64_t>(shape_[dim] - 1) * strides_[dim];
    view.strides_[dim] = -view.strides_[dim];
  }
  view.settle();
  return view;
}

Value Value::windowed(std::size_t dim, std::uint64_t size, std::uint64_t step,
                      std::uint64_t spacing) const {
  Value view = *this;
  view.shape_[dim] = (shape_[dim] - (size - 1) * spacing - 1) / step + 1;
  view.strides_[dim] *= static_cast<std::int64_t>(step);
  view.shape_.push_back(size);
  view.strides_.push_back(strides_[dim] * static_cast<std::int64_t>(spacing));
  checked_count(view.shape_);
  view.settle();
  return view;
}

}  // namespace ttrace::specification
