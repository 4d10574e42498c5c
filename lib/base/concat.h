// Joins values into one string. g++ 12 has no <format>, and message text is not worth a dependency.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <locale>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

namespace ttrace::base {

// What `out << part` would write in the classic locale. A stream costs a microsecond to set up,
// and names, paths and numbers are joined for every tensor of a trace, so they go without.
template <typename Part>
void append_text(std::string& text, const Part& part) {
  if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    text += std::string_view(part);
  } else if constexpr (std::is_same_v<Part, char>) {
    text += part;
  } else if constexpr (std::is_same_v<Part, bool>) {
    text += part ? '1' : '0';
  } else if constexpr (std::integral<Part> && sizeof(Part) > 1) {
    std::array<char, 24> digits{};
    text.append(digits.data(), std::to_chars(digits.begin(), digits.end(), part).ptr);
  } else if constexpr (std::floating_point<Part>) {
    std::array<char, 32> digits{};
    constexpr int kStreamPrecision = 6;
    text.append(digits.data(), std::to_chars(digits.begin(), digits.end(), part,
                                             std::chars_format::general, kStreamPrecision)
                                   .ptr);
  } else {
    std::ostringstream out;
    out.imbue(std::locale::classic());
    out << part;
    text += out.view();
  }
}

template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  (append_text(text, parts), ...);
  return text;
}

}  // namespace ttrace::base
