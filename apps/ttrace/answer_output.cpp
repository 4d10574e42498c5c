#include "answer_output.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>

#include "base/deflate.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "report/explain_text.h"
#include "report/page/page.h"
#include "terminal.h"

namespace ttrace::app {
namespace {

struct FileFormat {
  const char* flag;
  const char* help;
  // Makes the file of the answer in JSON.
  std::string (*render)(const std::string& json);
};

constexpr std::size_t kJson = 0;
constexpr std::size_t kPage = 1;
const FileFormat kFormats[] = {
    {"--json", "also write JSON; - is standard output, FILE.gz is compressed",
     [](const std::string& json) { return json; }},
    {"--html", "also write the answer as one self-contained page for a browser",
     [](const std::string& json) { return report::html_page(json, "the answer"); }},
};

constexpr std::size_t kMostWarnings = 10;
constexpr int kInconclusive = 3;

// `needed`: the warnings explain the exit code, so --quiet does not suppress them.
void print_warnings(const std::vector<std::string>& warnings, bool needed) {
  const auto print = needed ? base::warn_even_if_quiet : base::warn;
  for (std::size_t i = 0; i < warnings.size() && i < kMostWarnings; ++i) {
    print(base::printable(warnings[i]));
  }
  if (warnings.size() > kMostWarnings) {
    print(base::concat("and ", warnings.size() - kMostWarnings,
                       " more warnings; --json FILE has them all"));
  }
}

// A file as the next command names it; none for standard output.
std::string shown_file(const std::string& file) { return is_stdout(file) ? "" : file; }

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return a == b || std::filesystem::equivalent(a, b, error);
}

}  // namespace

AnswerFlags::AnswerFlags() : files(std::size(kFormats)) {}

void AnswerFlags::add_to(CLI::App& command, const char* all_means, bool page) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (i == kPage && !page) continue;
    command.add_option(kFormats[i].flag, files[i], kFormats[i].help);
  }
  if (page) {
    command.add_option("--json-detail", detail, "which tensors the JSON has the numbers of")
        ->check(CLI::IsMember({"all", "findings"}));
  }
  command.add_flag("--all", all, all_means);
  command.add_option("--explain", explain, "also explain the finding of this number, from 1");
  command.add_option("--format", format, "one screen, or the first line alone, never folded")
      ->check(CLI::IsMember({"text", "line"}));
  command.add_option("--color", colour, "when to use colour")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

const std::string& AnswerFlags::json() const { return files[kJson]; }
std::string& AnswerFlags::json() { return files[kJson]; }
std::string& AnswerFlags::page() { return files[kPage]; }

void require_own_files(const AnswerFlags& flags, const std::vector<NamedFile>& others) {
  std::vector<NamedFile> named = others;
  for (std::size_t i = 0; i < flags.files.size(); ++i) {
    const std::string& file = flags.files[i];
    if (file.empty()) continue;
    for (const auto& [name, path] : named) {
      if (path.empty() || !same_file(path, file)) continue;
      throw base::usage_error(kFormats[i].flag, " and ", name, " name the same file, ", file,
                              "; give each one of its own");
    }
    named.emplace_back(kFormats[i].flag, file);
  }
}

AnswerOutput::AnswerOutput(const AnswerFlags& flags) : flags_(flags) {
  for (const std::string& file : flags_.files) {
    files_.emplace_back(file);
    to_stderr_ = to_stderr_ || is_stdout(file);
  }
}

int AnswerOutput::write(const Answer& answer) {
  // Files come first, because a reader that closes the pipe after the first line of the answer ends
  // this process. If the disk is full, the answer is still printed.
  std::optional<base::Error> unwritten;
  std::string json;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (!files_[i].wanted()) continue;
    try {
      files_[i].store(text_of(i, answer, json));
    } catch (const base::Error& error) {
      if (!unwritten) unwritten = error;
    }
  }
  print_warnings(answer.warnings, answer.exit_code == kInconclusive);
  print_text(answer);
  if (unwritten) throw *unwritten;
  return answer.exit_code;
}

std::string AnswerOutput::text_of(std::size_t format, const Answer& answer,
                                  std::string& json) const {
  const bool findings = format == kJson && flags_.detail == "findings";
  // Every other format is made of all of it.
  if (!findings && json.empty()) json = answer.json(report::Detail::kAll);
  std::string text =
      kFormats[format].render(findings ? answer.json(report::Detail::kFindings) : json);
  const bool compressed = format == kJson && flags_.files[format].ends_with(".gz");
  return compressed ? base::gzip_compressed(text) : text;
}

void AnswerOutput::print_text(const Answer& answer) const {
  const int descriptor = to_stderr_ ? STDERR_FILENO : STDOUT_FILENO;
  std::ostringstream text;
  const bool in_a_line = base::is_quiet() || flags_.format == "line";
  const std::size_t width = in_a_line ? 0 : text_width(descriptor);
  answer.text({wants_colour(descriptor, flags_.colour), flags_.all, width,
               shown_file(flags_.json()), shown_file(flags_.files[kPage])},
              text);
  if (flags_.explain > 0 && !in_a_line) {
    text << "\n";
    report::explain_finding(flags_.explain, answer.json(report::Detail::kAll),
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
