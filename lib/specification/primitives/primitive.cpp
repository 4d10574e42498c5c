#include "specification/primitives/primitive.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "specification/primitives/families.h"

namespace ttrace::specification {
namespace {

using Table = std::map<std::string_view, Primitive>;

Table build() {
  Table table;
  for (auto* family :
       {view_primitives, constant_primitives, cast_primitives, elementwise_primitives,
        reduction_primitives, softmax_primitives, product_primitives, solve_primitives,
        fourier_primitives, norm_primitives, attention_primitives, table_primitives,
        choice_primitives, loss_primitives}) {
    for (Primitive& primitive : family()) {
      if (primitive.arguments.size() > primitive.required) {
        primitive.attributes.push_back({"arguments", AttributeType::kWords, false});
      }
      const std::string_view name = primitive.name;
      if (!table.emplace(name, std::move(primitive)).second) {
        throw base::internal_error("two primitives are named ", name);
      }
    }
  }
  return table;
}

const Table& table() {
  static const Table all = build();
  return all;
}

}  // namespace

void Attributes::set(std::string_view name, Content content) {
  contents_.emplace_back(name, std::move(content));
}

const Attributes::Content* Attributes::find(std::string_view name) const {
  for (const auto& [key, content] : contents_) {
    if (key == name) return &content;
  }
  return nullptr;
}

bool Attributes::has(std::string_view name) const { return find(name) != nullptr; }
bool Attributes::flag(std::string_view name) const { return std::get<bool>(*find(name)); }
double Attributes::number(std::string_view name) const { return std::get<double>(*find(name)); }
std::int64_t Attributes::integer(std::string_view name) const {
  return std::get<std::int64_t>(*find(name));
}
std::int64_t Attributes::integer_or(std::string_view name, std::int64_t absent) const {
  const Content* content = find(name);
  return content == nullptr ? absent : std::get<std::int64_t>(*content);
}
const std::vector<double>& Attributes::numbers(std::string_view name) const {
  return std::get<std::vector<double>>(*find(name));
}
const std::vector<std::size_t>& Attributes::dims(std::string_view name) const {
  return std::get<std::vector<std::size_t>>(*find(name));
}
const std::string& Attributes::word(std::string_view name) const {
  return std::get<std::string>(*find(name));
}
const std::vector<std::string>& Attributes::words(std::string_view name) const {
  static const std::vector<std::string> none;
  const Content* content = find(name);
  return content == nullptr ? none : std::get<std::vector<std::string>>(*content);
}

Primitive entry(std::string_view name, std::vector<std::string_view> arguments,
                std::size_t required, std::vector<AttributeRule> attributes, Rounding rounding,
                tensor::Shape (*shape)(const ShapeCall&),
                Value (*evaluate)(const EvaluationCall&)) {
  return {.name = name,
          .arguments = std::move(arguments),
          .required = required,
          .attributes = std::move(attributes),
          .rounding = rounding,
          .shape = shape,
          .evaluate = evaluate};
}

double no_work(std::span<const tensor::Shape* const>) { return 0; }

bool lists_elements(const Primitive& primitive) {
  const auto& rules = primitive.attributes;
  return std::any_of(rules.begin(), rules.end(), [](const AttributeRule& rule) {
    return rule.type == AttributeType::kNumbers;
  });
}

const Primitive* find_primitive(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : &found->second;
}

std::vector<std::string> primitive_names() {
  std::vector<std::string> names;
  for (const auto& [name, primitive] : table()) names.emplace_back(name);
  return names;
}

std::vector<std::size_t> argument_slots(const Primitive& primitive, const Attributes& attributes,
                                        std::size_t count) {
  std::vector<std::size_t> slots(count);
  for (std::size_t i = 0; i < count; ++i) slots[i] = i;
  if (primitive.variadic) {
    if (count == 0) throw shape_error("it needs at least one argument");
    return slots;
  }
  if (attributes.has("arguments")) {
    const auto& words = attributes.words("arguments");
    if (words.size() != count) {
      throw shape_error("\"arguments\" names ", words.size(), " of ",
                        base::plural(count, "argument"));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto& names = primitive.arguments;
      const auto found = std::find(names.begin(), names.end(), words[i]);
      slots[i] = static_cast<std::size_t>(found - names.begin());
      if (found == names.end() || (i > 0 && slots[i] <= slots[i - 1])) {
        throw shape_error("\"arguments\" names \"", base::printable(words[i]),
                          "\", which is unknown or out of order");
      }
    }
  }
  std::size_t next = 0;
  for (; next < count && slots[next] == next; ++next) {
  }
  if (next < primitive.required || count > primitive.arguments.size()) {
    const std::size_t most = primitive.arguments.size();
    throw shape_error("it takes ", primitive.required,
                      most > primitive.required ? base::concat(" to ", most) : std::string(),
                      most == 1 ? " argument, found " : " arguments, found ", count);
  }
  return slots;
}

}  // namespace ttrace::specification
