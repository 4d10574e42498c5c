#include "specification/describe.h"

#include <algorithm>
#include <type_traits>

#include "base/message.h"
#include "base/text.h"

namespace ttrace::specification {
namespace {

using base::concat;

template <typename Item>
std::string item_text(const Item& item) {
  if constexpr (std::is_same_v<Item, bool>) {
    return item ? "true" : "false";
  } else if constexpr (std::is_same_v<Item, double>) {
    return base::exact_number(item);
  } else {
    return concat(item);
  }
}

template <typename Item>
std::string list_text(const std::vector<Item>& items, std::size_t most) {
  std::vector<std::string> texts;
  for (const Item& item : items) {
    if (texts.size() < most) texts.push_back(item_text(item));
  }
  std::string text = "[";
  for (std::size_t i = 0; i < texts.size(); ++i) {
    text += concat(i > 0 ? ", " : "", texts[i]);
  }
  if (items.size() > most) text += concat(", ... ", items.size(), " in all");
  return text + "]";
}

}  // namespace

std::string describe_tensor(const Specification& specification, std::size_t tensor) {
  const SpecifiedTensor& found = specification.tensors[tensor];
  std::string text = concat(trace::kind_name(found.kind), " of ", found.name);
  if (found.call != 0) text += concat(", call ", found.call);
  if (found.copy != 0) text += concat(", copy ", found.copy);
  return text;
}

std::string describe_attribute(const Attributes::Content& content, std::size_t most) {
  return std::visit(
      [most](const auto& value) -> std::string {
        using Held = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Held, std::vector<double>> ||
                      std::is_same_v<Held, std::vector<std::size_t>> ||
                      std::is_same_v<Held, std::vector<std::string>>) {
          return list_text(value, most);
        } else {
          return item_text(value);
        }
      },
      content);
}

std::string describe_call(const Node& node, const std::vector<std::string>& arguments) {
  constexpr std::string_view kNamesOfArguments = "arguments";
  const std::vector<std::string>& names = node.attributes.words(kNamesOfArguments);
  std::string text = concat(node.primitive->name, "(");
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    text +=
        concat(i > 0 ? ", " : "", i < names.size() ? names[i] + " " : std::string(), arguments[i]);
  }
  text += ")";
  for (const AttributeRule& rule : node.primitive->attributes) {
    const Attributes::Content* content = node.attributes.find(rule.name);
    if (content == nullptr || rule.name == kNamesOfArguments) continue;
    text += concat(", ", rule.name, " ", describe_attribute(*content));
  }
  return text;
}

std::string list_some(const std::vector<std::string>& items, std::size_t most,
                      std::string_view between) {
  std::string text;
  for (std::size_t i = 0; i < items.size() && i < most; ++i) {
    text += concat(i > 0 ? between : "", items[i]);
  }
  if (items.size() > most) text += concat(between, "and ", items.size() - most, " more");
  return text;
}

std::string describe_expression(const Expression& expression) {
  constexpr std::size_t kMostNamed = 5;
  std::vector<std::string> operations;
  for (const Step& step : expression.steps) {
    const std::string name(step.node->primitive->name);
    if (!step.node->primitive->told_to_people) continue;
    if (std::find(operations.begin(), operations.end(), name) == operations.end()) {
      operations.push_back(name);
    }
  }
  std::vector<std::string> leaves;
  for (const Leaf& leaf : expression.leaves) {
    const SpecifiedTensor& tensor = expression.specification->tensors[leaf.tensor];
    leaves.push_back(concat(kind_name(tensor.kind), " ", tensor.name));
  }
  const std::string of = list_some(leaves, kMostNamed, ", ");
  if (operations.empty() && leaves.empty()) {
    return base::render({"a constant of the specification", {}});
  }
  if (operations.empty()) return base::render({"the same values as {leaves}", {{"leaves", of}}});
  return base::render({"{operations}[ of {leaves}]",
                       {{"operations", list_some(operations, kMostNamed, ", ")}, {"leaves", of}}});
}

}  // namespace ttrace::specification
