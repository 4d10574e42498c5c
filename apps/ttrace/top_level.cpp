#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "command.h"
#include "flags/execution.h"
#include "flags/flag_group.h"
#include "machine.h"
#include "manual/description.h"
#include "manual/help.h"
#include "process.h"
#include "separate_files.h"

namespace ttrace::app {
namespace {

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

// The options of this command and its parents ("--json", "-o"), which are accepted after it too.
std::vector<std::string> options_of(const CLI::App* app) {
  std::vector<std::string> names;
  for (; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    }
  }
  return names;
}

const CLI::Option* option_named(const CLI::App* app, const std::string& name) {
  for (; app != nullptr; app = app->get_parent()) {
    if (const CLI::Option* option = app->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

std::string message(const char* what, const std::string& word,
                    const std::vector<std::string>& known, const CLI::App* app) {
  const std::string hint = base::did_you_mean(word, known);
  return base::concat("no ", what, " \"", word, "\"",
                      hint.empty() ? base::concat("; see `", command_path(app), " --help`") : hint);
}

bool is_option(const std::string& word) {
  const bool number = word.size() > 1 && (word[1] == '.' || (word[1] >= '0' && word[1] <= '9'));
  return word.size() > 1 && word[0] == '-' && word != "--" && !number;
}

constexpr int kUsageExit = 2;

// The command that was parsed so far, such as "ttrace compare".
std::string command_name(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? "ttrace" : base::concat("ttrace ", chosen.front()->get_name());
}

// The message for a command line that could not be parsed because of an unknown command or option,
// such as "no command "comapre"; did you mean "compare"?", or empty. `words`: all words after the
// program's name.
std::string unknown_word(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") break;
    if (is_option(word)) {
      const bool is_long = word[1] == '-';
      const std::string name = is_long ? word.substr(0, word.find('=')) : word.substr(0, 2);
      const CLI::Option* option = option_named(at, name);
      if (option == nullptr) return message("option", name, options_of(at), at);
      // The next word is its value, even if it looks like an option.
      if (option->get_items_expected_min() > 0 && word == name) ++i;
      continue;
    }
    const std::vector<std::string> commands = commands_of(*at);
    if (commands.empty()) continue;
    const auto chosen = at->get_subcommands(
        [&word](const CLI::App* command) { return command->get_name() == word; });
    if (chosen.empty()) return message("command", word, commands, at);
    at = chosen.front();
  }
  return "";
}

}  // namespace

void add_top_level_flags(CLI::App& app) {
  app.require_subcommand(1);
  limit_memory_by_default();
  app.fallthrough();
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("-V,--version", version_text, "the version and what it was built with")
      ->group(kWork);
  const FlagGroup answer(app, kAnswer);
  answer.flag(
      "-q,--quiet", [](std::int64_t) { base::set_log_level(base::LogLevel::kQuiet); },
      "the first line of the answer alone, no progress, no warnings");
  answer.flag(
      "-v,--verbose", [](std::int64_t) { base::set_log_level(base::LogLevel::kVerbose); },
      "more about what is done, on stderr");
  add_execution_flags(app);
  app.footer(
      "Exit codes: 0 all is well, 1 something is not, 2 usage or unreadable input, 3 too little "
      "could be\nchecked; `ttrace help COMMAND` says more. The flags above may stand before or "
      "behind a command.");
}

// An option that takes one value and was given several; empty if there is none.
std::string repeated_option(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) {
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_items_expected_max() == 1 && option->count() > 1 &&
          option->get_name().starts_with("--")) {
        return base::concat(option->get_name(), " is given ", option->count(), " times, and ",
                            command->get_name(), " takes one");
      }
    }
    if (std::string repeated = repeated_option(*command); !repeated.empty()) return repeated;
  }
  return "";
}

// "compare takes REF and RUN; 7 were given", or empty if no word is too many.
std::string too_many_words(const CLI::App& app) {
  const std::size_t left = app.remaining(true).size();
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  std::vector<std::string> takes;
  std::size_t given = left;
  for (const CLI::Option* option : command->get_options()) {
    if (!option->get_positional()) continue;
    if (option->get_items_expected_max() > 1) return "";  // takes any number
    takes.push_back(option->get_name(true));
    given += option->count();
  }
  if (left == 0 || takes.empty()) return "";
  std::string names;
  for (std::size_t i = 0; i < takes.size(); ++i) {
    names += base::concat(i == 0 ? "" : i + 1 == takes.size() ? " and " : ", ", takes[i]);
  }
  return base::concat(command->get_name(), " takes ", names, "; ", given, " were given");
}

int parse_and_run(CLI::App& app, const Action& action, int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  // "ttrace help compare" is "ttrace compare --help".
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    if (const std::string unknown = unknown_word(app, words); !unknown.empty()) {
      base::report_error(base::printable(unknown));
      return kUsageExit;
    }
    words.emplace_back("--help");
  }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    // Scripts expect 2, not the exit codes of CLI11 (105, 106, ...).
    const std::string unknown = unknown_word(app, words);
    if (!unknown.empty()) {
      base::report_error(base::printable(unknown));
      return kUsageExit;
    }
    std::string problem = repeated_option(app);
    if (problem.empty()) problem = too_many_words(app);
    if (problem.empty()) problem = base::printable(error.what());
    base::report_error(base::concat(problem, "; see `", command_name(app), " --help`"));
    return kUsageExit;
  }
  require_separate_files(app);
  const int exit_code = supervised(action);
  std::cout.flush();
  // A network file system may report only here that written data is lost.
  const bool closed = ::close(STDOUT_FILENO) == 0 || errno == EBADF;
  if (!std::cout || !closed) {
    throw base::output_error("the answer cannot be written to standard output; is the disk full?");
  }
  return exit_code;
}

}  // namespace ttrace::app
