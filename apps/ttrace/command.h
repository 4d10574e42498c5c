// Registers the subcommands with the command line parser, and runs the chosen one.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace ttrace::app {

// The chosen command; returns the exit code. The parse callback of each subcommand stores it.
using Action = std::function<int()>;

// Adds --version, --quiet, -v, --isa, --memory, and the meaning of the exit codes.
void add_top_level_flags(CLI::App& app);
// Parses the command line, runs the chosen action and returns the exit code; 2 for usage errors.
int parse_and_run(CLI::App& app, const Action& action, int argc, char** argv);

void add_audit_command(CLI::App& app, Action& action);
void add_calibrate_command(CLI::App& app, Action& action);
void add_compare_command(CLI::App& app, Action& action);
void add_demo_command(CLI::App& app, Action& action);
void add_doctor_command(CLI::App& app, Action& action);
void add_explain_command(CLI::App& app, Action& action);
void add_inspect_command(CLI::App& app, Action& action);
void add_lint_command(CLI::App& app, Action& action);
void add_localize_command(CLI::App& app, Action& action);
void add_manual_commands(CLI::App& app, Action& action);
void add_merge_command(CLI::App& app, Action& action);
void add_report_command(CLI::App& app, Action& action);
void add_run_command(CLI::App& app, Action& action);
void add_selftest_command(CLI::App& app, Action& action);
void add_watch_command(CLI::App& app, Action& action);

}  // namespace ttrace::app
