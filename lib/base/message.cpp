#include "base/message.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace ttrace::base {
namespace {

const Message::Value& named_value(const Message& message, std::string_view name) {
  const auto found = std::find_if(message.values.begin(), message.values.end(),
                                  [name](const auto& value) { return value.first == name; });
  if (found != message.values.end()) return found->second;
  throw internal_error("the message \"", message.text, "\" has no value ", name);
}

std::uint64_t count_of(const Message& message, std::string_view name) {
  const auto* const count = std::get_if<std::uint64_t>(&named_value(message, name));
  if (count != nullptr) return *count;
  throw internal_error("the value ", name, " of \"", message.text, "\" is no count");
}

std::string text_of(const Message::Value& value) {
  if (const auto* count = std::get_if<std::uint64_t>(&value)) return concat(*count);
  if (const auto* number = std::get_if<double>(&value)) return short_number(*number);
  return printable(std::get<std::string>(value));
}

// Renders `field`, the text between two braces.
std::string rendered_field(const Message& message, std::string_view field) {
  if (const std::size_t colon = field.find(':'); colon != std::string_view::npos) {
    return plural(count_of(message, field.substr(0, colon)), field.substr(colon + 1));
  }
  if (const std::size_t choice = field.find('?'); choice != std::string_view::npos) {
    const std::size_t bar = field.find('|', choice);
    const bool one = count_of(message, field.substr(0, choice)) == 1;
    return std::string(one ? field.substr(choice + 1, bar - choice - 1) : field.substr(bar + 1));
  }
  return text_of(named_value(message, field));
}

// The name of the value in a field: "count" of "count:tensor" and of "count?is|are".
std::string_view value_name(std::string_view field) {
  return field.substr(0, field.find_first_of(":?"));
}

bool has_value(const Message& message, std::string_view name) {
  return std::any_of(message.values.begin(), message.values.end(), [name](const auto& value) {
    if (value.first != name) return false;
    const auto* const text = std::get_if<std::string>(&value.second);
    return text == nullptr || !text->empty();
  });
}

bool has_all_values(std::string_view text, const Message& message) {
  for (std::size_t at = text.find('{'); at != std::string_view::npos; at = text.find('{', at + 1)) {
    const std::size_t end = text.find('}', at);
    if (!has_value(message, value_name(text.substr(at + 1, end - at - 1)))) return false;
  }
  return true;
}

// The template without its brackets, and without what is in them if a value is missing.
std::string without_brackets(const Message& message) {
  std::string kept;
  std::string_view rest = message.text;
  while (!rest.empty()) {
    const std::size_t open = rest.find('[');
    kept += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = rest.find(']', open);
    const std::string_view inside = rest.substr(open + 1, close - open - 1);
    if (has_all_values(inside, message)) kept += inside;
    rest.remove_prefix(close + 1);
  }
  return kept;
}

std::string with_values(std::string_view rest, const Message& message) {
  std::string out;
  while (!rest.empty()) {
    const std::size_t open = rest.find('{');
    out += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = rest.find('}', open);
    out += rendered_field(message, rest.substr(open + 1, close - open - 1));
    rest.remove_prefix(close + 1);
  }
  return out;
}

}  // namespace

std::string render(const Message& message) {
  return with_values(without_brackets(message), message);
}

std::optional<std::string> rendered_if_complete(const Message& message) {
  const std::string text = without_brackets(message);
  if (!has_all_values(text, message)) return std::nullopt;
  return with_values(text, message);
}

}  // namespace ttrace::base
