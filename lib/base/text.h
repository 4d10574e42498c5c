// Text: joins values, formats numbers and sizes for people, makes untrusted text printable, limits
// its length, and finds names by a pattern or by similarity. g++ 12 has no <format>, and messages
// are not worth a dependency.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ttrace::base {

// One part of a text: a string, a character, a number, or 0 or 1 for a bool. Numbers look as a
// stream writes them in the classic locale: whole numbers in full, others with six significant
// digits. Lives as long as the expression that it is made in.
class TextPart {
 public:
  TextPart(const char* text) : text_(text) {}
  TextPart(std::string_view text) : text_(text) {}
  TextPart(const std::string& text) : text_(text) {}
  TextPart(char character) : text_(digits_.data(), 1) { digits_[0] = character; }
  TextPart(bool value) : TextPart(value ? '1' : '0') {}
  TextPart(double value);
  template <std::integral Integer>
    requires(sizeof(Integer) > 1)
  TextPart(Integer value) {
    if constexpr (std::is_signed_v<Integer>) {
      set_signed(value);
    } else {
      set_unsigned(value);
    }
  }
  TextPart(const TextPart&) = delete;
  TextPart& operator=(const TextPart&) = delete;

  std::string_view text() const { return text_; }

 private:
  void set_signed(std::int64_t value);
  void set_unsigned(std::uint64_t value);

  std::array<char, 24> digits_;
  std::string_view text_;
};

std::string joined(std::initializer_list<std::string_view> parts);

// Returns the parts one after the other.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  return joined({TextPart(parts).text()...});
}

// The functions below give the same text on every machine and in every locale.

// Three significant digits: "0.194", "1.6e6", "nan", "inf".
std::string short_number(double value);

// Nine significant digits, enough to tell any two single-precision numbers apart: "7.97502041".
std::string nine_digits(double value);

// The fewest digits that identify the number, so that the texts of different numbers differ.
std::string exact_number(double value);

// "412 B", "1.9 GB": powers of 1000, as `ls --si` prints.
std::string human_bytes(std::uint64_t bytes);

// "1 tensor", "3 tensors".
std::string plural(std::uint64_t count, std::string_view noun);

// "0, 1 and 2"; after eight of them "and 3 more".
std::string numbers_in_words(std::span<const std::uint64_t> numbers);

// Escapes control characters and invalid UTF-8 as \xNN, and invisible characters as \uNNNN, so that
// text from a file can neither move the cursor nor look like other text.
std::string printable(std::string_view text);
// Makes a text printable and cuts a long one: "abc... (67108864 bytes)". For messages that quote a
// file.
std::string excerpt(std::string_view text);

// Parses "512", "64K", "1.5G", "2GiB" as bytes, with units of 1024. Returns nothing if it is no
// such number or has more than 63 bits.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

inline constexpr std::size_t kLongestMessage = 2000;  // bytes; names and reasons come from files

// Returns `text` if it has at most `most` bytes, else its beginning and end and the number of bytes
// left out between them, because a message begins with the file and ends with the advice. Does not
// cut inside a character.
std::string shortened(std::string_view text, std::size_t most = kLongestMessage);

// Whether all of `text` matches the shell-like `pattern`: `*` matches any characters (dots
// included), `?` one. Brackets are literal, because `name[1]` is an ordinary tensor name. The worst
// case takes time proportional to the product of the lengths.
bool glob_match(std::string_view pattern, std::string_view text);

// Returns up to `count` candidates most similar to `wanted`, best first: those that contain it,
// then by edit distance; ties keep the candidates' order. Ignores candidates longer than 512 bytes.
std::vector<std::string> nearest_names(std::string_view wanted,
                                       const std::vector<std::string>& candidates,
                                       std::size_t count = 3);

// Returns "; did you mean "compare"?" for a mistyped word, or "" if no candidate is similar.
std::string did_you_mean(std::string_view wanted, const std::vector<std::string>& candidates);

// Returns "; the nearest names are a, b and c" to end an error message with, or "" without
// candidates.
std::string nearest_hint(std::string_view wanted, const std::vector<std::string>& candidates);

}  // namespace ttrace::base
