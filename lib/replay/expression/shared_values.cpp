#include "replay/expression/shared_values.h"

#include <type_traits>

#include "base/text.h"
#include "replay/primitives/shape_rules.h"

namespace ttrace::replay {
namespace {

void append(std::string& text, double number) { text += base::exact_number(number); }
void append(std::string& text, bool flag) { text += flag ? "yes" : "no"; }
void append(std::string& text, std::int64_t number) { text += base::concat(number); }
void append(std::string& text, const std::string& word) { text += word; }
template <typename One>
void append(std::string& text, const std::vector<One>& list) {
  for (const One& one : list) text += base::concat(one, ',');
}
void append(std::string& text, const std::vector<double>& list) {
  for (const double one : list) text += base::exact_number(one) + ',';
}

}  // namespace

std::uint32_t SharedValues::number_of_leaf(const std::string& name) {
  return numbers_.emplace("leaf " + name, static_cast<std::uint32_t>(numbers_.size()))
      .first->second;
}

std::uint32_t SharedValues::number_of_step(const Primitive& primitive, const Node& node,
                                           const tensor::Shape& shape,
                                           std::span<const std::uint32_t> arguments) {
  std::string text = base::concat(primitive.name, ' ', tensor::dtype_short_name(node.dtype),
                                  describe_shape(shape));
  for (const AttributeRule& rule : primitive.attributes) {
    const Attributes::Content* content = node.attributes.find(rule.name);
    if (content == nullptr) continue;
    text += base::concat(' ', rule.name, '=');
    std::visit([&text](const auto& value) { append(text, value); }, *content);
  }
  for (const std::uint32_t argument : arguments) text += base::concat(" #", argument);
  return numbers_.emplace(std::move(text), static_cast<std::uint32_t>(numbers_.size()))
      .first->second;
}

std::optional<Value> SharedValues::find(std::uint32_t number) {
  const auto known = values_.find(number);
  if (known == values_.end()) return std::nullopt;
  order_.splice(order_.end(), order_, known->second.place);
  return known->second.value;
}

void SharedValues::add(std::uint32_t number, const Value& value) {
  const std::uint64_t bytes = value.size() * sizeof(double);
  if (bytes > most_bytes_ || values_.contains(number)) return;
  while (used_ + bytes > most_bytes_) {
    const auto oldest = values_.find(order_.front());
    used_ -= oldest->second.value.size() * sizeof(double);
    values_.erase(oldest);
    order_.pop_front();
  }
  order_.push_back(number);
  values_.emplace(number, Kept{value, std::prev(order_.end())});
  used_ += bytes;
}

bool is_worth_sharing(const Primitive& primitive) {
  return primitive.name == "matmul" || primitive.name == "log_softmax" ||
         primitive.name.starts_with("attention");
}

}  // namespace ttrace::replay
