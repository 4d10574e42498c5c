// Values that are kept as long as there is room. The least recently used ones go first.
#pragma once

#include <cstdint>
#include <iterator>
#include <list>
#include <optional>
#include <unordered_map>

#include "specification/primitives/value.h"

namespace ttrace::specification {

template <typename Key>
class ValueCache {
 public:
  explicit ValueCache(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // Keeps at most `most_bytes` from now on.
  void limit(std::uint64_t most_bytes) {
    most_bytes_ = most_bytes;
    drop_until(most_bytes);
  }

  void clear() { drop_until(0); }

  std::optional<Value> find(const Key& key) {
    const auto known = values_.find(key);
    if (known == values_.end()) return std::nullopt;
    order_.splice(order_.end(), order_, known->second.place);
    return known->second.value;
  }

  // Does not keep a value that is larger than the limit.
  void add(const Key& key, const Value& value) {
    const std::uint64_t bytes = bytes_of(value);
    if (bytes > most_bytes_ || values_.contains(key)) return;
    drop_until(most_bytes_ - bytes);
    order_.push_back(key);
    values_.emplace(key, Kept{value, std::prev(order_.end())});
    used_ += bytes;
  }

 private:
  struct Kept {
    Value value;
    typename std::list<Key>::iterator place;
  };

  static std::uint64_t bytes_of(const Value& value) { return value.size() * sizeof(double); }

  void drop_until(std::uint64_t bytes) {
    while (used_ > bytes) {
      const auto oldest = values_.find(order_.front());
      used_ -= bytes_of(oldest->second.value);
      values_.erase(oldest);
      order_.pop_front();
    }
  }

  std::uint64_t most_bytes_;
  std::uint64_t used_ = 0;
  std::unordered_map<Key, Kept> values_;
  std::list<Key> order_;  // the least recently used first
};

}  // namespace ttrace::specification
