#include "report/terminal_text.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/text.h"
#include "report/text_report.h"

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

std::string time_text(double seconds) {
  const auto whole = static_cast<unsigned long long>(std::min(seconds, 1e15) + 0.5);
  std::array<char, 48> text{};
  if (whole < 3600) {
    std::snprintf(text.data(), text.size(), "%llu:%02llu", whole / 60, whole % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%llu:%02llu:%02llu", whole / 3600, whole / 60 % 60,
                  whole % 60);
  }
  return text.data();
}

}  // namespace

std::string bold(std::string_view text, const char* colour, const TextStyle& style) {
  if (!style.colour) return std::string(text);
  return base::concat("\x1b[1;", colour, "m", text, "\x1b[0m");
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  if (width == 0 || indent + columns(text) <= width) return std::string(text);
  std::string out;
  std::size_t column = indent;
  std::size_t start = 0;
  while (start < text.size()) {
    // The next word, with the spaces before it.
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
      // Continuation lines are indented by two more columns.
      out += wrapped(line.substr(indent), width, indent + 2);
    }
    if (stop < text.size()) out += '\n';
    start = stop + 1;
  }
  return out;
}

std::string progress_text(const ProgressState& state) {
  const double share = state.expected_bytes == 0 ? 0
                                                 : static_cast<double>(state.done_bytes) /
                                                       static_cast<double>(state.expected_bytes);
  std::string text =
      base::concat(static_cast<int>(100 * share), " %  ", base::human_bytes(state.done_bytes),
                   " of ", base::human_bytes(state.expected_bytes));
  if (state.seconds > 0) {
    const double rate = static_cast<double>(state.done_bytes) / state.seconds;
    text += base::concat("  ", base::human_bytes(static_cast<std::uint64_t>(rate)), "/s");
  }
  if (share > 0) {
    text += base::concat("  ", time_text(state.seconds * (1 - share) / share), " left");
  }
  if (!state.largest_error.empty()) {
    text += base::concat("  largest error ", base::short_number(state.error), " in ",
                         base::printable(state.largest_error));
  }
  return text;
}

}  // namespace ttrace::report
