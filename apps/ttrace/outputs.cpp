#include "outputs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "report/json_report.h"
#include "report/text_report.h"
#include "terminal.h"

namespace ttrace::app {
namespace {

namespace fs = std::filesystem;

// "run" for "run/": people write folders with a trailing slash.
fs::path without_slash(const std::string& path) {
  const fs::path given = fs::path(path).lexically_normal();
  return given.has_filename() ? given : given.parent_path();
}

fs::path folder_of(const std::string& path) {
  const fs::path parent = without_slash(path).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

constexpr std::size_t kMostWarnings = 10;

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

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path), to_stdout_(is_stdout(path)) {
  if (!path.empty() && !to_stdout_) file_.emplace(path, base::Existing::kReplaced);
}

void OutputFile::store(std::string_view text) {
  if (file_) {
    file_->store(text);
    base::inform(
        base::concat("wrote ", base::printable(path_), " (", base::human_bytes(text.size()), ")"));
  }
  if (!to_stdout_) return;
  std::cout.flush();
  if (const int error = base::write_all(STDOUT_FILENO, text); error != 0) {
    throw base::input_error("standard output: cannot be written: ", base::writing_problem(error));
  }
}

void require_not_of_trace(const std::string& output, const std::string& input) {
  if (output.empty() || is_stdout(output)) return;
  const fs::path path(output);
  const std::string name = path.filename().string();
  const bool is_trace_file =
      name == "manifest.json" || (name.starts_with("rank_") && name.ends_with(".h5"));
  std::error_code error;
  if (fs::equivalent(output, input, error) ||
      (is_trace_file && fs::equivalent(fs::absolute(path).parent_path(), input, error))) {
    throw base::usage_error(output, ": belongs to the trace that is read; write to another file");
  }
}

void require_absent(const std::string& path) {
  base::require_free_place(without_slash(path).string(), base::Existing::kKept);
}

void require_room(const std::string& path, std::uint64_t bytes) {
  std::error_code error;
  const fs::space_info disk = fs::space(folder_of(path), error);
  if (error || bytes <= disk.available) return;
  throw base::input_error(path, ": the tensors take ", base::human_bytes(bytes),
                          ", and the disk has room for ", base::human_bytes(disk.available),
                          "; make them smaller, or --sparse");
}

NewFolder::NewFolder(const std::string& path)
    : output_(without_slash(path).string(), base::Existing::kKept) {
  if (::mkdir(output_.unfinished_path().c_str(), 0777) == 0) return;
  throw base::input_error(output_.path(), ": cannot be created: ", base::writing_problem(errno));
}

std::string NewFolder::file(const std::string& name) const {
  return (fs::path(output_.unfinished_path()) / name).string();
}

base::Error NewFolder::named(const base::Error& error) const {
  std::string text = error.what();
  const std::string& unfinished = output_.unfinished_path();
  if (const std::size_t at = text.find(unfinished); at != std::string::npos) {
    text.replace(at, unfinished.size(), output_.path());
  }
  return {error.kind(), std::move(text)};
}

void NewFolder::put_in_place() { output_.put_in_place(); }

int write_answer(const std::string& json_path, OutputFile& json, const Answer& answer) {
  std::optional<base::Error> unwritten;
  try {
    if (json.wanted()) json.store(answer.json());
  } catch (const base::Error& error) {
    unwritten = error;
  }
  for (const std::string& warning : answer.warnings) base::warn(base::printable(warning));
  if (!is_stdout(json_path)) {
    std::cout << answer.text(STDOUT_FILENO);
    std::cout.flush();
  } else if (!base::is_quiet() || answer.exit_code != 0) {
    std::cerr << answer.text(STDERR_FILENO);
  }
  if (unwritten) throw *unwritten;
  return answer.exit_code;
}

void ReportFlags::add_to(CLI::App& command) {
  command.add_option("--json", json,
                     "also write the report as JSON to this file; - is standard output, and the "
                     "text goes to stderr then, or with --quiet nowhere");
  command.add_flag("--all-slices", all_slices,
                   "every part that is beyond its tolerance in the JSON, and not the worst four "
                   "of a finding");
  command.add_flag("--all", all, "print every finding in full and every tensor");
  command.add_option("--color", colour, "when to use colour")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

int ReportOutput::write(const comparison::CompareReport& report) {
  // Files come first, because a reader that closes the pipe after the first line of the answer ends
  // this process. If the disk is full, the answer is still printed.
  std::optional<base::Error> unwritten;
  try {
    if (json_.wanted()) {
      json_.store(report::json_text(report, {flags_.all_slices}));
    }
  } catch (const base::Error& error) {
    unwritten = error;
  }
  print_warnings(report.warnings, report.verdict == comparison::Verdict::kInconclusive);
  print_text(report);
  if (unwritten) throw *unwritten;
  return comparison::exit_code(report.verdict);
}

void ReportOutput::print_text(const comparison::CompareReport& report) const {
  const bool to_stderr = is_stdout(flags_.json);
  const int descriptor = to_stderr ? STDERR_FILENO : STDOUT_FILENO;
  std::ostringstream text;
  report::write_text(
      report, {wants_colour(descriptor, flags_.colour), flags_.all, text_width(descriptor)}, text);
  if (!to_stderr) {
    std::cout << text.view();
    std::cout.flush();
  } else if (!base::is_quiet()) {
    std::cerr << text.view();
  } else if (comparison::exit_code(report.verdict) != 0) {
    // Explain the exit code with the answer, which ends where the evidence begins.
    const std::string_view all = text.view();
    std::cerr << all.substr(0, std::min(all.find("\n\n") + 1, all.size()));
  }
}

}  // namespace ttrace::app
