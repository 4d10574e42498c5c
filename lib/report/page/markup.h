// Writes HTML in which every text of a report is data: text() is the only way in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ttrace::report {

// `text` for the content of an element or a quoted attribute: printable (base/text.h), with the
// five characters that HTML gives a meaning escaped.
std::string markup_text(std::string_view text);

// `text` behind the "#" of a link: all but letters, digits and "-._~/" percent-encoded.
std::string fragment_text(std::string_view text);

// `bytes` in base64 (RFC 4648), with padding.
std::string base64(std::string_view bytes);
// The bytes that hexadecimal digits stand for.
std::string bytes_of_hex(std::string_view digits);

class Markup {
 public:
  using Attributes = std::vector<std::pair<std::string_view, std::string>>;

  // `name` and the names of attributes are ours, values are escaped.
  Markup& open(std::string_view name, const Attributes& attributes = {});
  Markup& close(std::string_view name);
  Markup& text(std::string_view text);
  // open, text and close.
  Markup& element(std::string_view name, std::string_view text, const Attributes& attributes = {});
  Markup& add(const Markup& other);
  // Text itself has no line ends: they are escaped.
  Markup& end_line();

  const std::string& html() const { return html_; }
  bool empty() const { return html_.empty(); }

 private:
  std::string html_;
};

}  // namespace ttrace::report
