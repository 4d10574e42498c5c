#include "unknown_words.h"

#include "base/nearest.h"
#include "base/text.h"

namespace ttrace::app {
namespace {

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

// "--json", "-o": of this command and of those above it, which take theirs behind it too.
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

std::string words_of(const CLI::App* app) {
  return app->get_parent() == nullptr
             ? "ttrace"
             : base::concat(words_of(app->get_parent()), " ", app->get_name());
}

std::string message(const char* what, const std::string& word,
                    const std::vector<std::string>& known, const CLI::App* app) {
  const std::string hint = base::did_you_mean(word, known);
  return base::concat("no ", what, " \"", word, "\"",
                      hint.empty() ? base::concat("; see `", words_of(app), " --help`") : hint);
}

bool is_option(const std::string& word) {
  const bool number = word.size() > 1 && (word[1] == '.' || (word[1] >= '0' && word[1] <= '9'));
  return word.size() > 1 && word[0] == '-' && word != "--" && !number;
}

}  // namespace

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
      // The word after it is its value, whatever it looks like.
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

}  // namespace ttrace::app
