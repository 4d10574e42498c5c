// The subcommands: how each is registered with the command line parser, and how the chosen one
// runs.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

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

}  // namespace ttrace::app
