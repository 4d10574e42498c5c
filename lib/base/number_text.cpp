#include "base/number_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/concat.h"

namespace ttrace::base {
namespace {

// Bytes of the well-formed UTF-8 character at the start of `text`, or 0 if there is none or it is a
// control character (U+0080 to U+009F are too).
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

}  // namespace

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
  return concat(count, " ", noun, count == 1 ? "" : "s");
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = printable_length(text);
    if (length == 0) {
      std::array<char, 8> buffer{};
      std::snprintf(buffer.data(), buffer.size(), "\\x%02x",
                    static_cast<unsigned>(static_cast<unsigned char>(text[0])));
      out += buffer.data();
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

}  // namespace ttrace::base
