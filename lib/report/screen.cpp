#include "report/screen.h"

#include <algorithm>

#include "base/text.h"
#include "report/terminal_text.h"

namespace ttrace::report {
namespace {

using base::concat;

constexpr std::size_t kLabelColumn = 2;
constexpr std::size_t kScreenText = 11;  // the column at which the text of a line begins

std::size_t count_lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
}

}  // namespace

void Screen::add(const std::string& label, const std::string& text, Keep keep, std::size_t most) {
  if (text.empty()) return;
  std::string row = std::string(kLabelColumn, ' ') + label;
  if (row.size() + 1 > kScreenText) {
    row += "  ";
  } else {
    row.resize(kScreenText, ' ');
  }
  rows_.push_back({row + base::printable(cut_at_word(text, most)), keep});
}

std::size_t Screen::lines() const {
  const std::size_t width =
      style_.width == 0 ? kScreenColumns : std::max(style_.width, kScreenColumns);
  std::size_t count = count_lines(folded(first_, width));
  for (const Row& row : rows_) count += count_lines(wrapped(row.text, width, kScreenText));
  return count;
}

void Screen::write(std::ostream& out, std::size_t most) {
  for (const Keep least : {Keep::kShort, Keep::kLong, Keep::kAlways}) {
    for (std::size_t i = rows_.size(); i-- > 0 && lines() > most;) {
      if (rows_[i].keep == least) rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  out << folded(first_, style_.width) << "\n";
  for (const Row& row : rows_) {
    out << row.text.substr(0, kScreenText)
        << wrapped(row.text.substr(kScreenText), style_.width, kScreenText) << "\n";
  }
}

std::string describe_more(const TextStyle& style, bool has_findings) {
  std::string text;
  if (has_findings) {
    text =
        style.report_file.empty() ? "--explain 1" : concat("ttrace explain 1 ", style.report_file);
    text += style.page_file.empty() ? " · --html page.html · "
                                    : concat(" · open ", style.page_file, " · ");
  }
  return text + "--all";
}

std::string list_in_words(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += concat(i == 0 ? "" : i + 1 == items.size() ? " and " : ", ", items[i]);
  }
  return text;
}

void append_clause(std::string& text, const std::string& clause) {
  if (!clause.empty()) text += concat(text.empty() ? "" : "; ", clause);
}

std::string cut_at_word(const std::string& text, std::size_t most) {
  const auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; };
  std::size_t seen = 0;
  std::size_t space = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (starts(text[at]) && seen++ == most) {
      return concat(text.substr(0, space > 0 ? space : at), " …");
    }
    if (text[at] == ' ') space = at;
  }
  return text;
}

}  // namespace ttrace::report
