#include "report/wrap.h"

#include <algorithm>

namespace ttrace::report {
namespace {

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  if (width == 0 || indent + columns(text) <= width) return std::string(text);
  std::string out;
  std::size_t column = indent;
  std::size_t start = 0;
  while (start < text.size()) {
    // A word, with the spaces before it.
    const std::size_t word = std::min(text.find_first_not_of(' ', start), text.size());
    const std::size_t stop = std::min(text.find(' ', word), text.size());
    const std::size_t wide = columns(text.substr(start, stop - start));
    if (column > indent && column + wide > width) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else {
      out += text.substr(start, word - start);
      column += word - start;
    }
    out += text.substr(word, stop - word);
    column += columns(text.substr(word, stop - word));
    start = stop;
  }
  return out;
}

}  // namespace ttrace::report
