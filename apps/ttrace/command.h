// What all subcommands share: how they are registered, and the flags that mean the same everywhere.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "comparison/selection.h"

namespace ttrace::app {

// Adds a subcommand whose parse callback stores what is to be run; the result is the exit code.
using Action = std::function<int()>;

// --version, --quiet, -v, and what the exit codes mean.
void add_top_level_flags(CLI::App& app);
// Parses the command line and runs the chosen action. Usage errors exit with 2.
int parse_and_run(CLI::App& app, const Action& action, int argc, char** argv);

void add_calibrate_command(CLI::App& app, Action& action);
void add_compare_command(CLI::App& app, Action& action);
void add_inspect_command(CLI::App& app, Action& action);
void add_lint_command(CLI::App& app, Action& action);
void add_merge_command(CLI::App& app, Action& action);
void add_report_command(CLI::App& app, Action& action);
void add_selftest_command(CLI::App& app, Action& action);
void add_synth_command(CLI::App& app, Action& action);

// --only, --skip, --kind, --step. The kinds are parsed when the command runs.
struct SelectionFlags {
  std::vector<std::string> only;
  std::vector<std::string> skip;
  std::vector<std::string> kinds;
  std::vector<std::uint64_t> steps;

  void add_to(CLI::App& command);
  // Throws a usage error on an unknown kind.
  comparison::Selection selection() const;
};

}  // namespace ttrace::app
