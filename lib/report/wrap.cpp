#include "report/wrap.h"

#include <algorithm>

namespace ttrace::report {
namespace {

std::size_t columns(std::string_view text) {
  std::size_t count = 0;
  bool in_colour = false;
  for (const char c : text) {
    in_colour = in_colour || c == '\x1b';
    if (!in_colour && (static_cast<unsigned char>(c) & 0xc0U) != 0x80U) ++count;
    in_colour = in_colour && c != 'm';
  }
  return count;
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

std::string folded(std::string_view text, std::size_t width) {
  if (width == 0) return std::string(text);
  std::string out;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t stop = std::min(text.find('\n', start), text.size());
    const std::string_view line = text.substr(start, stop - start);
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    if (columns(line) <= width) {
      out += line;
    } else {
      out.append(indent, ' ');
      // The first line begins where it does, those after it two columns later.
      out += wrapped(line.substr(indent), width, indent + 2);
    }
    if (stop < text.size()) out += '\n';
    start = stop + 1;
  }
  return out;
}

}  // namespace ttrace::report
