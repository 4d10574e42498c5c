#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

namespace ttrace::base {
namespace {

// The length in bytes of the UTF-8 character at the start of `text`, or 0 if it is malformed or a
// control character (U+0080 to U+009F are control characters too).
std::size_t printable_length(std::string_view text) {
  const auto byte = [&text](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned lead = byte(0);
  const unsigned second = byte(1);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const std::size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  const bool control = lead == 0xc2 && second < 0xa0;
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate = lead == 0xed && second >= 0xa0;
  const bool beyond = lead == 0xf4 && second >= 0x90;
  return control || overlong || surrogate || beyond ? 0 : length;
}

// Whether the character is invisible or moves other characters, so that a name with it could look
// like a different name.
bool is_invisible(unsigned code) {
  struct Range {
    unsigned first;
    unsigned last;
  };
  constexpr std::array<Range, 13> kRanges{{
      {0x00ad, 0x00ad},    // soft hyphen
      {0x034f, 0x034f},    // combining grapheme joiner
      {0x061c, 0x061c},    // Arabic letter mark
      {0x115f, 0x1160},    // Hangul fillers
      {0x17b4, 0x17b5},    // Khmer inherent vowels
      {0x180b, 0x180f},    // Mongolian selectors and vowel separator
      {0x200b, 0x200f},    // zero-width spaces and joiners, marks of direction
      {0x2028, 0x202e},    // line and paragraph separators, embeddings and overrides of direction
      {0x2060, 0x206f},    // word joiner, isolates of direction, deprecated controls
      {0x3164, 0x3164},    // Hangul filler
      {0xfeff, 0xfeff},    // byte order mark
      {0xfff9, 0xfffb},    // interlinear annotation
      {0xe0000, 0xe0fff},  // tags
  }};
  return std::any_of(kRanges.begin(), kRanges.end(), [code](const Range& range) {
    return code >= range.first && code <= range.last;
  });
}

// The code point of a well-formed UTF-8 character.
unsigned code_point(std::string_view character) {
  constexpr std::array<unsigned, 5> kLeadBits{0, 0x7f, 0x1f, 0x0f, 0x07};
  unsigned code = static_cast<unsigned char>(character[0]) & kLeadBits.at(character.size());
  for (const char byte : character.substr(1)) {
    code = code << 6 | (static_cast<unsigned char>(byte) & 0x3fU);
  }
  return code;
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; }

constexpr std::size_t kLongestName = 512;

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::string without_stars(std::string_view pattern) {
  std::string plain;
  std::copy_if(pattern.begin(), pattern.end(), std::back_inserter(plain),
               [](char c) { return c != '*' && c != '?'; });
  return plain;
}

}  // namespace

TextPart::TextPart(double value) {
  constexpr int kStreamPrecision = 6;
  char* const end = std::to_chars(digits_.data(), digits_.data() + digits_.size(), value,
                                  std::chars_format::general, kStreamPrecision)
                        .ptr;
  text_ = std::string_view(digits_.data(), end);
}

void TextPart::set_signed(std::int64_t value) {
  text_ = std::string_view(
      digits_.data(), std::to_chars(digits_.data(), digits_.data() + digits_.size(), value).ptr);
}

void TextPart::set_unsigned(std::uint64_t value) {
  text_ = std::string_view(
      digits_.data(), std::to_chars(digits_.data(), digits_.data() + digits_.size(), value).ptr);
}

std::string joined(std::initializer_list<std::string_view> parts) {
  std::size_t bytes = 0;
  for (const std::string_view part : parts) bytes += part.size();
  std::string text;
  text.reserve(bytes);
  for (const std::string_view part : parts) text += part;
  return text;
}

std::string short_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 40> buffer{};
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 0.001 && size < 100000);
  std::snprintf(buffer.data(), buffer.size(), plain && size >= 100 ? "%.0f" : "%.3g", value);
  std::string text = buffer.data();
  // "1.6e+06" -> "1.6e6", "4e-07" -> "4e-7"
  if (const auto e = text.find('e'); e != std::string::npos) {
    const int exponent = std::atoi(text.c_str() + e + 1);
    text = concat(text.substr(0, e), "e", exponent);
  }
  return text;
}

std::string nine_digits(double value) {
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.9g", value);
  return buffer.data();
}

std::string exact_number(double value) {
  std::array<char, 32> buffer{};
  return {buffer.data(), std::to_chars(buffer.begin(), buffer.end(), value).ptr};
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return concat(bytes, " B");
  constexpr std::array<const char*, 6> kUnits{"kB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  value /= 1000;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.1f %s", value, kUnits[unit]);
  return buffer.data();
}

std::string plural(std::uint64_t count, std::string_view noun) {
  return concat(count, " ", noun, count == 1 ? "" : noun.ends_with("ss") ? "es" : "s");
}

std::string numbers_in_words(std::span<const std::uint64_t> numbers) {
  constexpr std::size_t kMostNumbersNamed = 8;
  std::string text;
  for (std::size_t i = 0; i < numbers.size() && i < kMostNumbersNamed; ++i) {
    const bool last = i + 1 == numbers.size();
    text += concat(i == 0 ? "" : last ? " and " : ", ", numbers[i]);
  }
  if (numbers.size() > kMostNumbersNamed) {
    text += concat(" and ", numbers.size() - kMostNumbersNamed, " more");
  }
  return text;
}

std::string printable(std::string_view text) {
  const auto is_plain = [](char c) { return c >= 0x20 && c < 0x7f; };
  if (std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);  // nearly always
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = printable_length(text);
    if (length == 0) {
      std::array<char, 8> buffer{};
      std::snprintf(buffer.data(), buffer.size(), "\\x%02x",
                    static_cast<unsigned>(static_cast<unsigned char>(text[0])));
      out += buffer.data();
    } else if (const unsigned code = code_point(text.substr(0, length)); is_invisible(code)) {
      std::array<char, 16> buffer{};
      std::snprintf(buffer.data(), buffer.size(), code > 0xffff ? "\\U%08x" : "\\u%04x", code);
      out += buffer.data();
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string excerpt(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  if (text.size() <= kLongest) return printable(text);
  return concat(printable(text.substr(0, kLongest)), "... (", text.size(), " bytes)");
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.ends_with("iB")) {
    unit.remove_suffix(2);
    if (unit.empty()) return std::nullopt;
  } else if (unit.ends_with("B")) {
    unit.remove_suffix(1);
  }
  constexpr std::string_view kUnits = "KMGT";
  double factor = 1;
  if (!unit.empty()) {
    const std::size_t place = kUnits.find(unit);
    if (unit.size() != 1 || place == std::string_view::npos) return std::nullopt;
    factor = std::ldexp(1.0, 10 * static_cast<int>(place + 1));
  }
  const double bytes = std::floor(number * factor);
  if (bytes >= 0x1p63) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t head = most / 4 * 3;
  std::size_t tail = text.size() - most / 4;
  while (head > 0 && continues_character(text[head])) --head;
  while (tail < text.size() && continues_character(text[tail])) ++tail;
  return concat(text.substr(0, head), " [... ", tail - head, " bytes ...] ", text.substr(tail));
}

bool glob_match(std::string_view pattern, std::string_view text) {
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = kNone;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != kNone) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string> nearest_names(std::string_view wanted,
                                       const std::vector<std::string>& candidates,
                                       std::size_t count) {
  const std::string plain = without_stars(wanted);
  std::vector<std::pair<std::size_t, const std::string*>> ranked;
  std::set<std::string_view> seen;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongestName || plain.size() > kLongestName) continue;
    if (!seen.insert(candidate).second) continue;
    const bool contains = !plain.empty() && candidate.find(plain) != std::string::npos;
    ranked.emplace_back(contains ? 0 : edit_distance(plain, candidate), &candidate);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < ranked.size() && i < count; ++i) names.push_back(*ranked[i].second);
  return names;
}

std::string did_you_mean(std::string_view wanted, const std::vector<std::string>& candidates) {
  const std::vector<std::string> names = nearest_names(wanted, candidates, 1);
  if (names.empty() || wanted.size() > kLongestName) return "";
  // A word with more than half of its letters wrong is a different word.
  const std::size_t letters = std::max(wanted.size(), names[0].size());
  const bool alike =
      names[0].find(wanted) != std::string::npos || 2 * edit_distance(wanted, names[0]) <= letters;
  return alike ? concat("; did you mean \"", names[0], "\"?") : "";
}

std::string nearest_hint(std::string_view wanted, const std::vector<std::string>& candidates) {
  const std::vector<std::string> names = nearest_names(wanted, candidates);
  if (names.empty()) return "";
  if (names.size() == 1) return concat("; the nearest name is ", names[0]);
  std::string hint = "; the nearest names are ";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) hint += i + 1 == names.size() ? " and " : ", ";
    hint += names[i];
  }
  return hint;
}

}  // namespace ttrace::base
