#include "report_output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <optional>

#include "base/concat.h"
#include "base/error.h"
#include "base/log.h"
#include "base/number_text.h"
#include "mpi_ranks.h"
#include "report/json_report.h"
#include "report/text_report.h"

namespace ttrace::app {
namespace {

constexpr std::size_t kMostWarnings = 10;

// Whoever looks at what mpirun passes on, it is not at the terminal that this process sees.
bool is_terminal() { return isatty(STDOUT_FILENO) == 1 && !mpi_rank(); }

bool wants_colour(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  const char* no_colour = std::getenv("NO_COLOR");
  return is_terminal() && (no_colour == nullptr || *no_colour == '\0');
}

std::size_t terminal_width() {
  winsize size{};
  const bool known = is_terminal() && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return known ? size.ws_col : 0;
}

void print_warnings(const std::vector<std::string>& warnings) {
  for (std::size_t i = 0; i < warnings.size() && i < kMostWarnings; ++i) {
    base::warn(base::printable(warnings[i]));
  }
  if (warnings.size() > kMostWarnings) {
    base::warn(base::concat("and ", warnings.size() - kMostWarnings,
                            " more warnings; --json FILE has them all"));
  }
}

}  // namespace

void ReportFlags::add_to(CLI::App& command) {
  command.add_option("--json", json, "also write the report as JSON to this file");
  command.add_flag("--all", all, "print every finding in full and every tensor");
  command.add_option("--color", colour, "when to use colour")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

int ReportOutput::write(const report::CompareReport& report) {
  // Before the answer: a reader that leaves after its first line ends this process. A full disk
  // must not keep the answer back either.
  std::optional<base::Error> unwritten;
  try {
    if (json_.wanted()) json_.store(report::json_text(report));
  } catch (const base::Error& error) {
    unwritten = error;
  }
  print_warnings(report.warnings);
  report::write_text(report, {wants_colour(flags_.colour), flags_.all, terminal_width()},
                     std::cout);
  std::cout.flush();
  if (unwritten) throw *unwritten;
  return report::exit_code(report.verdict);
}

}  // namespace ttrace::app
