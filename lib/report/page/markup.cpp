#include "report/page/markup.h"

#include <cstddef>

#include "base/text.h"

namespace ttrace::report {
namespace {

bool stands_for_itself(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-._~/").find(c) != std::string_view::npos;
}

unsigned value_of_digit(char digit) {
  return digit >= 'a' ? static_cast<unsigned>(digit - 'a') + 10
                      : static_cast<unsigned>(digit - '0');
}

}  // namespace

std::string markup_text(std::string_view text) {
  std::string out;
  for (const char c : base::printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string fragment_text(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (stands_for_itself(c)) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kDigits[byte >> 4U], kDigits[byte & 15U]};
    }
  }
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group <<= 8U;
      if (i + j < bytes.size()) group |= static_cast<unsigned char>(bytes[i + j]);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      const bool padding = i + j > bytes.size();
      out += padding ? '=' : kDigits[group >> (18 - 6 * j) & 63U];
    }
  }
  return out;
}

std::string bytes_of_hex(std::string_view digits) {
  std::string out;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    out += static_cast<char>(value_of_digit(digits[i]) << 4U | value_of_digit(digits[i + 1]));
  }
  return out;
}

Markup& Markup::open(std::string_view name, const Attributes& attributes) {
  html_.append("<").append(name);
  for (const auto& [attribute, value] : attributes) {
    html_.append(" ").append(attribute).append("=\"").append(markup_text(value)).append("\"");
  }
  html_ += '>';
  return *this;
}

Markup& Markup::close(std::string_view name) {
  html_.append("</").append(name).append(">");
  return *this;
}

Markup& Markup::text(std::string_view text) {
  html_ += markup_text(text);
  return *this;
}

Markup& Markup::element(std::string_view name, std::string_view text,
                        const Attributes& attributes) {
  return open(name, attributes).text(text).close(name);
}

Markup& Markup::add(const Markup& other) {
  html_ += other.html_;
  return *this;
}

Markup& Markup::end_line() {
  html_ += '\n';
  return *this;
}

}  // namespace ttrace::report
