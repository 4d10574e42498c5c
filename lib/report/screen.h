// What a command shows first: the answer as a sentence, and a few labelled lines. At most 15 lines
// at 100 columns, so that it is read at one glance; --all and `ttrace explain` have the rest.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "report/terminal_text.h"
#include "report/text_report.h"

namespace ttrace::report {

inline constexpr std::size_t kScreenLines = 15;
inline constexpr std::size_t kScreenLinesOfMatch = 4;
inline constexpr std::size_t kScreenColumns = 100;

class Screen {
 public:
  // How soon a line is left out where there are too many.
  enum class Keep { kAlways, kLong, kShort };

  // `first_line`: with its colour. `style`: the width to fold to.
  Screen(std::string first_line, const TextStyle& style) : style_(style), first_(first_line) {}

  // Adds a line, none if `text` is empty. A text of more than `most` characters loses its end.
  void add(const std::string& label, const std::string& text, Keep keep = Keep::kAlways,
           std::size_t most = 180);

  // Writes at most `most` lines of at most 100 columns, folded at the terminal's width.
  void write(std::ostream& out, std::size_t most = kScreenLines);

 private:
  struct Row {
    std::string text;
    Keep keep;
  };

  std::size_t lines() const;

  TextStyle style_;
  std::string first_;
  std::vector<Row> rows_;
};

// The last line of a screen: "not checked  nothing of 759         more  ttrace explain 1 r.json".
std::string describe_more(const TextStyle& style, bool has_findings);

// "forward, loss and raw gradients": a list in words.
std::string list_in_words(const std::vector<std::string>& items);

// Adds a clause behind "; ", nothing if it is empty.
void append_clause(std::string& text, const std::string& clause);

// The text up to a word, with "…", if it has more than `most` characters.
std::string cut_at_word(const std::string& text, std::size_t most);

}  // namespace ttrace::report
