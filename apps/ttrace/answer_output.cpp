#include "answer_output.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <optional>
#include <sstream>

#include "answer/answer_json.h"
#include "base/deflate.h"
#include "base/display_limits.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "report/explain_text.h"
#include "report/file_formats.h"
#include "report/page/read_answer.h"
#include "terminal.h"

namespace ttrace::app {
namespace {

using report::file_formats;
using report::kJsonFormat;
using report::kPageFormat;

constexpr int kInconclusive = 3;

// `needed`: the warnings explain the exit code, so --quiet does not suppress them.
void print_warnings(const std::vector<std::string>& warnings, bool needed) {
  const auto print = needed ? base::warn_even_if_quiet : base::warn;
  for (std::size_t i = 0; i < warnings.size() && i < base::kShown.warnings; ++i) {
    print(base::printable(warnings[i]));
  }
  if (warnings.size() > base::kShown.warnings) {
    print(base::concat("and ", warnings.size() - base::kShown.warnings,
                       " more warnings; --json FILE has them all"));
  }
}

std::string github_summary() {
  const char* const file = std::getenv(kGithubSummary);
  if (file != nullptr && *file != '\0') return file;
  throw base::usage_error("--markdown github needs ", kGithubSummary,
                          ", which GitHub Actions sets for its steps; elsewhere give a file");
}

// A file as the next command names it; none for standard output.
std::string shown_file(const std::string& file) { return is_stdout(file) ? "" : file; }

}  // namespace

AnswerOutput::AnswerOutput(const AnswerFlags& flags) : flags_(flags) {
  for (std::size_t i = 0; i < flags_.files.size(); ++i) {
    const std::string& file = flags_.files[i];
    if (is_github(i, file)) {
      summary_.emplace(github_summary());
      files_.emplace_back("");
    } else {
      files_.emplace_back(file);
    }
    to_stderr_ = to_stderr_ || is_stdout(file);
  }
}

int AnswerOutput::write(const GivenAnswer& answer) {
  // Files come first, because a reader that closes the pipe after the first line of the answer ends
  // this process. If the disk is full, the answer is still printed.
  const std::optional<base::Error> unwritten = write_files(answer);
  print_warnings(answer.warnings, answer.exit_code == kInconclusive);
  print_text(answer);
  if (unwritten) throw *unwritten;
  return answer.exit_code;
}

std::optional<base::Error> AnswerOutput::write_files(const GivenAnswer& answer) {
  std::optional<base::Error> unwritten;
  std::optional<report::PageAnswer> page;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const bool to_summary = is_github(i, flags_.files[i]);
    if (!files_[i].wanted() && !to_summary) continue;
    try {
      const std::string text = text_of(i, answer, page);
      if (to_summary) {
        summary_->append(text);
      } else {
        files_[i].store(text);
      }
    } catch (const base::Error& error) {
      if (!unwritten) unwritten = error;
    }
  }
  return unwritten;
}

std::string AnswerOutput::text_of(std::size_t format, const GivenAnswer& answer,
                                  std::optional<report::PageAnswer>& page) const {
  if (format != kJsonFormat) {
    if (!page) {
      page = answer.answer ? report::page_answer_of(answer.answer(report::Detail::kAll))
                           : report::read_page_answer(answer.json(), "the answer");
    }
    return file_formats()[format].render(*page);
  }
  const auto detail =
      flags_.detail == "findings" ? report::Detail::kFindings : report::Detail::kAll;
  const std::string text = answer.answer ? answer::json_of(answer.answer(detail)) : answer.json();
  return flags_.files[format].ends_with(".gz") ? base::gzip_compressed(text) : text;
}

void AnswerOutput::print_text(const GivenAnswer& answer) const {
  const int descriptor = to_stderr_ ? STDERR_FILENO : STDOUT_FILENO;
  std::ostringstream text;
  const bool in_a_line = base::is_quiet() || flags_.format == "line";
  const std::size_t width = in_a_line ? 0 : text_width(descriptor);
  answer.text({wants_colour(descriptor, flags_.colour), flags_.all, width,
               shown_file(flags_.json()), shown_file(flags_.files[kPageFormat])},
              text);
  if (flags_.explain > 0 && !in_a_line && answer.answer) {
    text << "\n";
    report::explain_answer(flags_.explain, answer.answer(report::Detail::kAll),
                           shown_file(flags_.json()), {false, false, width, {}}, text);
  }
  const std::string_view all = text.view();
  const std::string_view shown = in_a_line ? all.substr(0, all.find('\n') + 1) : all;
  if (!to_stderr_) {
    std::cout << shown;
    std::cout.flush();
  } else if (!base::is_quiet() || answer.exit_code != 0) {
    std::cerr << shown;
  }
}

}  // namespace ttrace::app
