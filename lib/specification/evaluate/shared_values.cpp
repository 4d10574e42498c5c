#include "specification/evaluate/shared_values.h"

#include <type_traits>

#include "base/bytes.h"
#include "base/text.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

void append(std::string& text, double number) { text += base::exact_number(number); }
void append(std::string& text, bool flag) { text += flag ? "yes" : "no"; }
void append(std::string& text, std::int64_t number) { text += base::concat(number); }
void append(std::string& text, const std::string& word) { text += word; }
void append(std::string& text, std::size_t number) { text += base::concat(number); }
// Lists may have thousands of items.
template <typename One>
void append(std::string& text, const std::vector<One>& list) {
  std::string items;
  for (const One& one : list) {
    append(items, one);
    items += ',';
  }
  constexpr std::size_t kLongest = 64;
  text += items.size() <= kLongest ? items
                                   : base::concat(list.size(), " items of ", base::fnv1a(items));
}

}  // namespace

void SharedValues::limit(std::uint64_t most_bytes) {
  most_bytes_ = most_bytes;
  drop_until(most_bytes);
}

void SharedValues::drop_until(std::uint64_t bytes) {
  while (used_ > bytes) {
    const auto oldest = values_.find(order_.front());
    used_ -= oldest->second.value.size() * sizeof(double);
    values_.erase(oldest);
    order_.pop_front();
  }
}

void SharedValues::make_room() {
  constexpr std::uint64_t kMostText = std::uint64_t{1} << 24U;
  if (text_bytes_ <= kMostText) return;
  numbers_.clear();
  text_bytes_ = 0;
  drop_until(0);
}

std::uint32_t SharedValues::number_of(std::string text) {
  const std::uint64_t bytes = text.size() + sizeof(std::string) + sizeof(std::uint32_t);
  const auto [known, fresh] = numbers_.try_emplace(std::move(text), next_number_);
  if (fresh) {
    ++next_number_;
    text_bytes_ += bytes;
  }
  return known->second;
}

std::uint32_t SharedValues::number_of_leaf(const std::string& name) {
  return number_of("leaf " + name);
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
  return number_of(std::move(text));
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
  drop_until(most_bytes_ - bytes);
  order_.push_back(number);
  values_.emplace(number, Kept{value, std::prev(order_.end())});
  used_ += bytes;
}

}  // namespace ttrace::specification
