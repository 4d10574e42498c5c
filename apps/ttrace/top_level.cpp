#include <iostream>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "command.h"
#include "measure/cpu/kernel.h"
#include "memory_limit.h"
#include "supervise.h"
#include "unknown_words.h"
#include "version.h"

namespace ttrace::app {
namespace {

constexpr int kUsageExit = 2;

// "ttrace compare" as far as the command line got.
std::string command_words(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? "ttrace" : base::concat("ttrace ", chosen.front()->get_name());
}

}  // namespace

void add_top_level_flags(CLI::App& app) {
  app.require_subcommand(1);
  limit_memory_by_default();
  app.fallthrough();
  app.set_version_flag("--version", version_text);
  app.add_flag_callback(
      "--quiet", [] { base::set_log_level(base::LogLevel::kQuiet); },
      "no progress and no warnings on stderr, but for the reason of an exit code");
  app.add_flag_callback(
      "-v,--verbose", [] { base::set_log_level(base::LogLevel::kVerbose); },
      "more about what is done, on stderr");
  app.add_option_function<std::string>(
      "--isa", [](const std::string& isa) { measure::choose_kernel(isa); },
      base::concat("instruction set of the sums, which never depend on it (default: the fastest; ",
                   instruction_sets(), ")"));
  app.add_option_function<std::string>(
      "--memory", [](const std::string& size) { limit_memory(size); },
      "most memory beside the manifests, as in 500M or 2G (default: a quarter of the machine's, "
      "at most 2G)");
  app.footer(
      "Exit codes: 0 match (clean), 1 diverged (findings), 2 usage or unreadable input,\n"
      "3 inconclusive (nothing compared, ranks missing, interrupted, all under the noise floor).");
}

int parse_and_run(CLI::App& app, const Action& action, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    // CLI11's own codes (105, 106, ...) mean nothing to a script.
    const std::string unknown = unknown_word(app, {argv + 1, argv + argc});
    if (!unknown.empty()) {
      base::report_error(base::printable(unknown));
      return kUsageExit;
    }
    base::report_error(
        base::concat(base::printable(error.what()), "; see `", command_words(app), " --help`"));
    return kUsageExit;
  }
  const int exit_code = supervised(action);
  std::cout.flush();
  if (!std::cout) {
    throw base::input_error("the answer cannot be written to standard output; is the disk full?");
  }
  return exit_code;
}

}  // namespace ttrace::app
