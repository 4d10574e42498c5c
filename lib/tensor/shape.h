// The extents of a tensor. A trace may have a million tensors, and a dozen shapes for each: extents
// of up to three dimensions lie in the shape itself, not in a block of the heap.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ttrace::tensor {

// Extents of a tensor or shard, outermost dimension first. An empty shape is a 0-d tensor with one
// element. Has the members of std::vector that are needed, with its meaning; a moved-from shape is
// empty.
class Shape {
 public:
  using value_type = std::uint64_t;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = std::uint64_t&;
  using const_reference = const std::uint64_t&;
  using iterator = std::uint64_t*;
  using const_iterator = const std::uint64_t*;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;

  static constexpr std::size_t kInside = 3;

  Shape() noexcept = default;
  explicit Shape(std::size_t count, std::uint64_t value = 0) { resize(count, value); }
  Shape(std::initializer_list<std::uint64_t> extents) : Shape(std::span(extents)) {}
  // Implicit: any list of numbers may become one.
  Shape(std::span<const std::uint64_t> extents) { assign(extents.begin(), extents.end()); }
  Shape(const std::vector<std::uint64_t>& extents) : Shape(std::span(extents)) {}
  template <std::forward_iterator Iterator>
  Shape(Iterator first, Iterator last) {
    assign(first, last);
  }
  Shape(const Shape& other) {
    if (other.is_inside()) {
      copy_inside(other);
    } else {
      assign(other.begin(), other.end());
    }
  }
  Shape(Shape&& other) noexcept { take(other); }
  Shape& operator=(const Shape& other) {
    if (is_inside() && other.is_inside()) {
      copy_inside(other);
    } else if (this != &other) {
      assign(other.begin(), other.end());
    }
    return *this;
  }
  Shape& operator=(Shape&& other) noexcept {
    if (this == &other) return *this;
    release();
    take(other);
    return *this;
  }
  ~Shape() { release(); }

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return capacity_; }
  std::uint64_t* data() noexcept { return is_inside() ? inside_ : heap_; }
  const std::uint64_t* data() const noexcept { return is_inside() ? inside_ : heap_; }

  iterator begin() noexcept { return data(); }
  iterator end() noexcept { return data() + size_; }
  const_iterator begin() const noexcept { return data(); }
  const_iterator end() const noexcept { return data() + size_; }
  const_iterator cbegin() const noexcept { return begin(); }
  const_iterator cend() const noexcept { return end(); }
  reverse_iterator rbegin() noexcept { return reverse_iterator(end()); }
  reverse_iterator rend() noexcept { return reverse_iterator(begin()); }
  const_reverse_iterator rbegin() const noexcept { return const_reverse_iterator(end()); }
  const_reverse_iterator rend() const noexcept { return const_reverse_iterator(begin()); }

  std::uint64_t& operator[](std::size_t i) { return data()[i]; }
  const std::uint64_t& operator[](std::size_t i) const { return data()[i]; }
  std::uint64_t& at(std::size_t i) { return data()[checked(i)]; }
  const std::uint64_t& at(std::size_t i) const { return data()[checked(i)]; }
  std::uint64_t& front() { return data()[0]; }
  const std::uint64_t& front() const { return data()[0]; }
  std::uint64_t& back() { return data()[size_ - 1]; }
  const std::uint64_t& back() const { return data()[size_ - 1]; }

  void clear() noexcept { size_ = 0; }
  void reserve(std::size_t count) {
    if (count > capacity_) grow_to(count);
  }
  void resize(std::size_t count, std::uint64_t value = 0) {
    reserve(count);
    if (count > size_) std::fill(end(), data() + count, value);
    size_ = static_cast<std::uint32_t>(count);
  }
  void push_back(std::uint64_t extent) {
    if (size_ == capacity_) grow_to(size_ + std::size_t{1});
    data()[size_++] = extent;
  }
  void pop_back() { --size_; }
  void assign(std::size_t count, std::uint64_t value) {
    clear();
    resize(count, value);
  }
  // [first, last) must not lie in this shape, except that it may be all of it.
  template <std::forward_iterator Iterator>
  void assign(Iterator first, Iterator last) {
    const auto count = static_cast<std::size_t>(std::distance(first, last));
    reserve(count);
    std::copy(first, last, data());
    size_ = static_cast<std::uint32_t>(count);
  }
  iterator insert(const_iterator at, std::uint64_t extent) {
    return insert(at, &extent, &extent + 1);
  }
  // [first, last) must not lie in this shape.
  template <std::forward_iterator Iterator>
  iterator insert(const_iterator at, Iterator first, Iterator last) {
    const std::ptrdiff_t before = at - begin();
    const std::size_t old_size = size_;
    resize(old_size + static_cast<std::size_t>(std::distance(first, last)));
    const iterator place = begin() + before;
    std::copy_backward(place, begin() + old_size, end());
    std::copy(first, last, place);
    return place;
  }
  iterator erase(const_iterator at) { return erase(at, at + 1); }
  iterator erase(const_iterator first, const_iterator last) {
    const iterator place = begin() + (first - begin());
    std::copy(last, cend(), place);
    size_ -= static_cast<std::uint32_t>(last - first);
    return place;
  }

  bool operator==(const Shape& other) const noexcept {
    return size_ == other.size_ && std::equal(begin(), end(), other.begin());
  }
  // Lexicographical.
  std::strong_ordering operator<=>(const Shape& other) const noexcept {
    return std::lexicographical_compare_three_way(begin(), end(), other.begin(), other.end());
  }

 private:
  bool is_inside() const noexcept { return capacity_ == kInside; }
  std::size_t checked(std::size_t i) const;
  // Makes room for at least `count` extents, which must be more than there is room for.
  void grow_to(std::size_t count);

  void copy_inside(const Shape& other) noexcept {
    std::copy_n(other.inside_, kInside, inside_);
    size_ = other.size_;
  }
  // This shape must have nothing on the heap.
  void take(Shape& other) noexcept {
    if (other.is_inside()) {
      copy_inside(other);
    } else {
      heap_ = other.heap_;
      size_ = other.size_;
      capacity_ = std::exchange(other.capacity_, kInside);
      std::fill_n(other.inside_, kInside, 0);
    }
    other.size_ = 0;
  }
  // Leaves nothing on the heap, and the extents unspecified.
  void release() noexcept {
    if (is_inside()) return;
    delete[] heap_;
    std::fill_n(inside_, kInside, 0);
    capacity_ = kInside;
  }

  union {
    std::uint64_t inside_[kInside] = {};
    std::uint64_t* heap_;
  };
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = kInside;  // more where the extents lie on the heap
};

}  // namespace ttrace::tensor
