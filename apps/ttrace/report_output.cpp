#include "report_output.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "report/json_report.h"
#include "report/text_report.h"
#include "terminal.h"

namespace ttrace::app {
namespace {

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

void ReportFlags::add_to(CLI::App& command) {
  command.add_option("--json", json,
                     "also write the report as JSON to this file; - is standard output, and the "
                     "text goes to stderr then, or with --quiet nowhere");
  command
      .add_option("--report-version", version,
                  "of the JSON: 2, or 1 as versions of ttrace before wrote it")
      ->check(CLI::IsMember({1, 2}));
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
      json_.store(report::json_text(report, {flags_.version, flags_.all_slices}));
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
