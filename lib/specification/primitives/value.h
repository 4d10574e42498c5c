// A tensor in memory on which expressions are evaluated: binary64 elements, a shape and strides.
//
// Integers and booleans are held as numbers too (true is 1): exact up to 2^53, far beyond every id
// and index of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/box.h"

namespace ttrace::specification {

// Limits the memory of all values together while it lives: making a value beyond it is an input
// error. This bounds what a graph of any shape can take. Only one may live at a time; without one
// there is no limit.
class ValueMemoryLimit {
 public:
  explicit ValueMemoryLimit(std::uint64_t most_bytes);
  ~ValueMemoryLimit();
  ValueMemoryLimit(const ValueMemoryLimit&) = delete;
  ValueMemoryLimit& operator=(const ValueMemoryLimit&) = delete;
};

// Views share their elements, which live as long as the last view. Elements do not change once a
// value is complete.
class Value {
 public:
  // A 0-d zero.
  Value();
  // Dense elements in row-major order, to be written through fresh().
  static Value uninitialised(tensor::Shape shape);
  // Dense zeros, to be changed through fresh().
  static Value zeros(tensor::Shape shape);
  // Dense. `elements` has as many as `shape` says.
  static Value of(tensor::Shape shape, std::vector<double> elements);
  // One element in memory, whatever the shape.
  static Value full(tensor::Shape shape, double element);

  const tensor::Shape& shape() const { return shape_; }
  std::size_t dimensions() const { return shape_.size(); }
  std::uint64_t size() const { return size_; }
  // In elements; the stride of a dimension of size 1 has no meaning.
  std::span<const std::int64_t> strides() const { return strides_; }
  // The element at index (0, ..., 0).
  const double* data() const { return elements_.get() + offset_; }
  // Whether the elements lie in row-major order without gaps, from data() on.
  bool dense() const { return dense_; }
  // All elements of a dense value.
  std::span<const double> elements() const { return {data(), static_cast<std::size_t>(size_)}; }
  // The element with a row-major index; slow.
  double at(std::uint64_t index) const;

  // The elements of a value made by uninitialised(), zeros() or copy(), before anything else has a
  // view of it.
  double* fresh() { return elements_.get() + offset_; }

  // The same elements, dense: this value itself if it is dense, else a copy.
  Value to_dense() const;

  // The same elements, dense, in memory of their own.
  Value copy() const;

  // Views. The arguments must fit the shape, as the rules of the primitives check.
  Value reshaped(tensor::Shape shape) const;  // a copy where strides cannot express it
  Value permuted(std::span<const std::size_t> dims) const;
  Value expanded(const tensor::Shape& shape) const;
  Value sliced(std::size_t dim, std::uint64_t start, std::uint64_t stop, std::uint64_t step) const;
  Value flipped(std::span<const std::size_t> dims) const;
  // Windows of `size` elements along `dim`, `spacing` apart, each `step` after the one before:
  // along `dim` their number, their elements in a new last dimension.
  Value windowed(std::size_t dim, std::uint64_t size, std::uint64_t step,
                 std::uint64_t spacing) const;

 private:
  void settle();  // finds size_ and dense_

  std::shared_ptr<double[]> elements_;
  tensor::Shape shape_;
  std::vector<std::int64_t> strides_;
  std::int64_t offset_ = 0;
  std::uint64_t size_ = 1;
  bool dense_ = true;
};

}  // namespace ttrace::specification
