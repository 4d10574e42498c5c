#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>

#include "base/concat.h"
#include "base/error.h"
#include "base/log.h"
#include "base/number_text.h"
#include "command.h"
#include "compare/kernels/choose_kernel.h"
#include "engine/compare_traces.h"
#include "judged_pair.h"
#include "output_file.h"
#include "report/json_report.h"
#include "report/text_report.h"
#include "trace/hdf5/reader.h"
#include "version.h"

namespace ttrace::app {
namespace {

constexpr std::size_t kMostWarnings = 10;

struct Flags {
  JudgedPairFlags pair;
  std::string json;
  std::string truth;
  std::string colour = "auto";
  bool all = false;
};

bool wants_colour(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0');
}

std::size_t terminal_width() {
  winsize size{};
  const bool known = isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
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

int run(const Flags& flags) {
  flags.pair.require_not_input(flags.json);
  if (!flags.truth.empty()) require_not_of_trace(flags.json, flags.truth);
  OutputFile json(flags.json);
  const JudgedPair pair(flags.pair);
  const auto truth = flags.truth.empty() ? nullptr : trace::hdf5::open_trace(flags.truth);
  engine::CompareOptions options = pair.options();
  options.truth = truth.get();
  report::CompareReport report =
      engine::compare_traces(pair.reference(), pair.candidate(), pair.noise(), options);
  report.layout_rules = flags.pair.layout;
  report.environment.backend = "cpu";
  report.environment.instruction_set = compare::kernel().isa;
  report.environment.version = version();

  // Before the answer: a reader that leaves after its first line ends this process. A full disk
  // must not keep the answer back either.
  std::optional<base::Error> unwritten;
  try {
    json.store(report::json_text(report));
  } catch (const base::Error& error) {
    unwritten = error;
  }
  print_warnings(report.warnings);
  report::write_text(report, {wants_colour(flags.colour), flags.all, terminal_width()}, std::cout);
  std::cout.flush();
  if (unwritten) throw *unwritten;
  return report::exit_code(report.verdict);
}

}  // namespace

void add_compare_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("compare", "compare a run with its reference, first divergence first");
  const auto flags = std::make_shared<Flags>();
  flags->pair.add_to(*command, "the trace to check");
  command->add_option("--truth", flags->truth,
                      "the reference run in higher precision: which side is nearer to it is shown "
                      "beside every verdict and changes none");
  command->add_option("--json", flags->json, "also write the report as JSON to this file");
  command->add_flag("--all", flags->all, "print every finding in full and every tensor");
  command->add_option("--color", flags->colour, "when to use colour")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace ttrace::app
