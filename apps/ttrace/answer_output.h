// Writes the answer of a command: its text on the terminal, and the files that were asked for. All
// commands that answer write through here, so one line of the table in report/file_formats.cpp adds
// a format of files to all of them.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "answer/answer.h"
#include "flags/answer.h"
#include "outputs.h"
#include "report/page/page_answer.h"
#include "report/terminal_text.h"
#include "report/text_report.h"
#include "report/to_answer/to_answer.h"

namespace ttrace::app {

struct GivenAnswer {
  // Of compare, audit and localize. A command with one level of detail ignores the argument.
  std::function<answer::Answer(report::Detail)> answer;
  // Of other commands: JSON that has a schema of its own.
  std::function<std::string()> json;
  std::function<void(const report::TextStyle&, std::ostream&)> text;
  std::vector<std::string> warnings;
  int exit_code = 0;
};

class AnswerOutput {
 public:
  // Opens the files. Throws an input error if one cannot be written.
  explicit AnswerOutput(const AnswerFlags& flags);

  // Writes the files, the warnings to stderr, and the text to stdout, or to stderr if a file goes
  // to stdout. With --quiet it prints the first line alone, and on stderr only what explains an
  // exit code other than 0; the warnings of an inconclusive answer stay. Returns the exit code. If
  // a file cannot be written, throws an input error after the answer has been printed.
  int write(const GivenAnswer& answer);
  // Writes the files alone. Returns why one cannot be written, or nothing.
  std::optional<base::Error> write_files(const GivenAnswer& answer);

 private:
  // The file of a format. `page`: nothing as long as no format needed it.
  std::string text_of(std::size_t format, const GivenAnswer& answer,
                      std::optional<report::PageAnswer>& page) const;
  void print_text(const GivenAnswer& answer) const;

  AnswerFlags flags_;
  std::deque<OutputFile> files_;  // as flags_.files
  std::optional<AppendedFile> summary_;
  bool to_stderr_ = false;  // the text
};

}  // namespace ttrace::app
