#include "report/page/read_parts.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace ttrace::report {

using base::JsonCursor;

std::string text_at(const JsonCursor& object, std::string_view name) {
  const auto found = object.find(name);
  return found && !found->is_null() ? found->as_string() : "";
}

std::string shape_text(const tensor::Shape& shape) {
  if (shape.empty()) return "a number";
  std::string text;
  for (const std::uint64_t size : shape) text += base::concat(text.empty() ? "" : " × ", size);
  return text;
}

std::string ranks_text(const std::vector<std::uint64_t>& ranks) {
  return ranks.empty() ? "" : base::numbers_in_words(ranks);
}

std::string words(std::string text) {
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string shell_word(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._/=:,+@%").find(c) != std::string_view::npos;
  });
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace ttrace::report
