// Values that several expressions have in common, such as a product inside of two gradients: they
// are computed once and kept as long as there is room.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "specification/evaluate/value_cache.h"
#include "specification/expression.h"
#include "specification/primitives/value.h"

namespace ttrace::specification {

class SharedValues {
 public:
  explicit SharedValues(std::uint64_t most_bytes) : values_(most_bytes) {}

  // Keeps at most `most_bytes` from now on.
  void limit(std::uint64_t most_bytes) { values_.limit(most_bytes); }

  // To be called before the values of an expression are numbered: forgets everything if the names
  // and operations that have numbers take too much memory. No number is given twice.
  void make_room();

  // Values are known by numbers. Equal numbers mean equal bits: of a leaf by a name that is the
  // same in all expressions, of a step by its operation and the numbers of its arguments.
  std::uint32_t number_of_leaf(const std::string& name);
  std::uint32_t number_of_step(const Primitive& primitive, const Node& node,
                               const tensor::Shape& shape,
                               std::span<const std::uint32_t> arguments);

  std::optional<Value> find(std::uint32_t number) { return values_.find(number); }
  void add(std::uint32_t number, const Value& value) { values_.add(number, value); }

 private:
  std::uint32_t number_of(std::string text);

  std::uint64_t text_bytes_ = 0;  // of numbers_
  std::uint32_t next_number_ = 0;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  ValueCache<std::uint32_t> values_;
};

// How the evaluation of one expression takes part.
struct ValueSharing {
  SharedValues* values = nullptr;
  std::vector<std::string> leaves;  // the name of each leaf
};

}  // namespace ttrace::specification
