// Joins values into one string. g++ 12 has no <format>, and message text is not worth a dependency.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <locale>
#include <optional>
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

// Numbers as people read them, the same on every machine and in every locale.

// Three significant digits: 0.194, 1.6e+06 as "1.6e6", "nan", "inf".
std::string short_number(double value);

// Nine significant digits, by which any two single-precision numbers differ: "7.97502041".
std::string nine_digits(double value);

// "412 B", "1.9 GB" (powers of 1000, as disks are sold and `ls --si` prints).
std::string human_bytes(std::uint64_t bytes);

// "1 tensor", "3 tensors".
std::string plural(std::uint64_t count, std::string_view noun);

// Control characters and what is not UTF-8 become \xNN, so that text from a file can neither move
// the cursor nor break a line.
std::string printable(std::string_view text);

// Sizes as people write them.

// "512", "64K", "1.5G", "2GiB": bytes, with units of 1024; nothing if it is no such number or has
// more than 63 bits.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

// Messages of bounded length: names and reasons come from files.

inline constexpr std::size_t kLongestMessage = 2000;  // bytes

// `text`, or its beginning and end with what is left out between them told: a message begins with
// the file and ends with the way out. A character of several bytes is never cut.
std::string shortened(std::string_view text, std::size_t most = kLongestMessage);

}  // namespace ttrace::base
