// Loops over values on several threads. Every element of a result is computed by one call alone, so
// that no result depends on the number of threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "measure/backend.h"
#include "specification/primitives/value.h"

namespace ttrace::specification {

// Elements that are worth a call on another thread.
inline constexpr std::uint64_t kElementsPerCall = std::uint64_t{1} << 15U;

// Calls work(begin, end) for ranges of at most `length` that cover [0, count).
template <typename Work>
void for_ranges(const measure::ExecutionContext& context, std::uint64_t count, std::uint64_t length,
                const Work& work) {
  length = std::max<std::uint64_t>(length, 1);
  if (count <= length) {
    if (count > 0) work(std::uint64_t{0}, count);
    return;
  }
  context.parallel_for(static_cast<std::size_t>((count - 1) / length + 1), [&](std::size_t i) {
    work(i * length, std::min<std::uint64_t>(count, (i + 1) * length));
  });
}

// The same over rows of `row` elements each.
template <typename Work>
void for_rows(const measure::ExecutionContext& context, std::uint64_t rows, std::uint64_t row,
              const Work& work) {
  for_ranges(context, rows, kElementsPerCall / std::max<std::uint64_t>(row, 1), work);
}

// N values of one shape, walked together: neighbouring dimensions are one where all of them allow.
template <std::size_t N>
class JointWalk {
 public:
  explicit JointWalk(const std::array<Value, N>& values) {
    for (std::size_t k = 0; k < N; ++k) data_[k] = values[k].data();
    const tensor::Shape& shape = values[0].shape();
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) continue;
      std::array<std::int64_t, N> strides{};
      for (std::size_t k = 0; k < N; ++k) strides[k] = values[k].strides()[d];
      if (!extents_.empty()) {
        bool joined = true;
        for (std::size_t k = 0; k < N; ++k) {
          joined = joined && strides_.back()[k] == strides[k] * static_cast<std::int64_t>(shape[d]);
        }
        if (joined) {
          extents_.back() *= shape[d];
          strides_.back() = strides;
          continue;
        }
      }
      extents_.push_back(shape[d]);
      strides_.push_back(strides);
    }
    if (extents_.empty()) {
      extents_.push_back(1);
      strides_.push_back({});
    }
  }

  // Calls visit(pointers, strides, first, count) for runs that cover the elements [begin, end).
  template <typename Visit>
  void visit(std::uint64_t begin, std::uint64_t end, const Visit& visit) const {
    const std::uint64_t inner = extents_.back();
    const auto& steps = strides_.back();
    while (begin < end) {
      const std::uint64_t in_row = begin % inner;
      const std::uint64_t count = std::min(inner - in_row, end - begin);
      std::array<const double*, N> at = data_;
      std::uint64_t row = begin / inner;
      for (std::size_t d = extents_.size() - 1; d-- > 0;) {
        const auto index = static_cast<std::int64_t>(row % extents_[d]);
        row /= extents_[d];
        for (std::size_t k = 0; k < N; ++k) at[k] += index * strides_[d][k];
      }
      for (std::size_t k = 0; k < N; ++k) at[k] += static_cast<std::int64_t>(in_row) * steps[k];
      visit(at, steps, begin, count);
      begin += count;
    }
  }

 private:
  std::array<const double*, N> data_{};
  std::vector<std::uint64_t> extents_;
  std::vector<std::array<std::int64_t, N>> strides_;
};

// Returns f(a[i], b[i], ...) for every element; the values have the same shape.
template <std::size_t N, typename F>
Value map(const measure::ExecutionContext& context, const std::array<Value, N>& values,
          const F& f) {
  Value result = Value::uninitialised(values[0].shape());
  double* out = result.fresh();
  const JointWalk<N> walk(values);
  const auto one = [&f]<std::size_t... K>(const std::array<const double*, N>& at,
                                          const std::array<std::int64_t, N>& steps, std::int64_t i,
                                          std::index_sequence<K...>) {
    return f(at[K][i * steps[K]]...);
  };
  const auto dense = [&f]<std::size_t... K>(const std::array<const double*, N>& at, std::int64_t i,
                                            std::index_sequence<K...>) { return f(at[K][i]...); };
  for_ranges(context, result.size(), kElementsPerCall, [&](std::uint64_t begin, std::uint64_t end) {
    walk.visit(begin, end,
               [&](const auto& at, const auto& steps, std::uint64_t first, std::uint64_t count) {
                 double* to = out + first;
                 const auto n = static_cast<std::int64_t>(count);
                 bool all_dense = true;
                 for (const std::int64_t step : steps) all_dense = all_dense && step == 1;
                 if (all_dense) {
                   for (std::int64_t i = 0; i < n; ++i)
                     to[i] = dense(at, i, std::make_index_sequence<N>());
                 } else {
                   for (std::int64_t i = 0; i < n; ++i) {
                     to[i] = one(at, steps, i, std::make_index_sequence<N>());
                   }
                 }
               });
  });
  return result;
}

// `value` with dimension `dim` last, dense.
inline Value with_last(const Value& value, std::size_t dim) {
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < value.dimensions(); ++d) {
    if (d != dim) order.push_back(d);
  }
  order.push_back(dim);
  return value.permuted(order).to_dense();
}

// The inverse: the last dimension becomes dimension `dim`.
inline Value with_last_at(const Value& value, std::size_t dim) {
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d + 1 < value.dimensions(); ++d) order.push_back(d);
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(dim), value.dimensions() - 1);
  return value.permuted(order);
}

}  // namespace ttrace::specification
