// An optional value on the heap. An empty one takes one pointer: this saves memory in records that
// exist a million times and mostly leave their large members empty.
#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace ttrace::base {

// Has the members of std::optional, and copies its value.
template <typename T>
class HeapOptional {
 public:
  HeapOptional() = default;
  // Implicit, as those of std::optional.
  HeapOptional(std::nullopt_t) {}
  HeapOptional(T value) : value_(std::make_unique<T>(std::move(value))) {}
  HeapOptional(std::optional<T> value) {
    if (value) emplace(*std::move(value));
  }
  HeapOptional(const HeapOptional& other) {
    if (other) emplace(*other);
  }
  HeapOptional(HeapOptional&& other) noexcept = default;
  HeapOptional& operator=(HeapOptional other) noexcept {
    value_ = std::move(other.value_);
    return *this;
  }
  ~HeapOptional() = default;

  template <typename... Arguments>
  T& emplace(Arguments&&... arguments) {
    value_ = std::make_unique<T>(std::forward<Arguments>(arguments)...);
    return *value_;
  }
  void reset() { value_.reset(); }

  bool has_value() const { return value_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return value_.get(); }
  const T* operator->() const { return value_.get(); }

  T value_or(T other) const { return value_ ? *value_ : std::move(other); }

  bool operator==(const HeapOptional& other) const {
    return has_value() == other.has_value() && (!has_value() || *value_ == *other.value_);
  }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace ttrace::base
