// A value that is mostly the default one, or the same in many records. It takes one pointer: a
// comparison may have a million records, each with many such values.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

namespace ttrace::base {

// Reads as a default value until another one is assigned. Copies share the value until one of them
// is changed.
template <typename T>
class SharedValue {
 public:
  SharedValue() noexcept = default;
  // Implicit: any value may become one. An empty list or text takes no memory.
  SharedValue(T value) {
    if constexpr (requires { value.empty(); }) {
      if (value.empty()) return;
    }
    held_ = new Held{std::move(value)};
  }
  SharedValue(const SharedValue& other) noexcept : held_(other.held_) {
    if (held_ != nullptr) held_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  SharedValue(SharedValue&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  SharedValue& operator=(SharedValue other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~SharedValue() {
    if (held_ == nullptr) return;
    if (held_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete held_;
  }

  const T& operator*() const {
    static const T kDefault{};
    return held_ != nullptr ? held_->value : kDefault;
  }
  const T* operator->() const { return &**this; }
  operator const T&() const { return **this; }

  // For changing the value in place; other copies keep theirs.
  T& change() {
    const bool is_own = held_ != nullptr && held_->owners.load(std::memory_order_acquire) == 1;
    if (!is_own) *this = SharedValue(new Held{**this});
    return held_->value;
  }

  bool shares_with(const SharedValue& other) const { return held_ == other.held_; }

 private:
  struct Held {
    T value;
    std::atomic<std::size_t> owners = 1;
  };

  explicit SharedValue(Held* held) : held_(held) {}

  Held* held_ = nullptr;  // or null: the default
};

}  // namespace ttrace::base
