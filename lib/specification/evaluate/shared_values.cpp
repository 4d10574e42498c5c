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

void SharedValues::make_room() {
  constexpr std::uint64_t kMostText = std::uint64_t{1} << 24U;
  if (text_bytes_ <= kMostText) return;
  numbers_.clear();
  text_bytes_ = 0;
  values_.clear();
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

}  // namespace ttrace::specification
