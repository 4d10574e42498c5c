#include "help.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "flags/flag_group.h"

namespace ttrace::app {
namespace {

using base::concat;

constexpr std::size_t kColumns = 100;
constexpr std::size_t kDescriptions = 30;  // the column where they begin

struct Example {
  std::string_view command;
  std::vector<std::string_view> lines;
};

const std::vector<Example>& examples() {
  static const std::vector<Example> kExamples{
      {"ttrace",
       {"ttrace compare ref.h5 run/ --noise noise*.h5      first divergence first",
        "ttrace demo                                       see a bug found",
        "ttrace run --candidate 'torchrun t.py' -- python t.py    all of it in one line",
        "ttrace audit run/ --specification step.json       without a reference",
        "ttrace help compare                               what a command takes"}},
      {"ttrace compare", {"ttrace compare ref.h5 run/ --noise noise*.h5 --html page.html"}},
      {"ttrace audit",
       {"ttrace audit run/ --specification step.json       does every tensor follow from its own?",
        "ttrace audit run/                                 replicas and optimizer steps alone"}},
      {"ttrace localize",
       {"ttrace localize ref.h5 run/ --specification step.json",
        "ttrace localize ref.h5 run/ --report compare.json"}},
      {"ttrace run",
       {"ttrace run --candidate 'torchrun --nproc-per-node 2 train.py' -- python train.py"}},
      {"ttrace doctor",
       {"ttrace doctor ref.h5 run/ --noise noise*.h5       before any numbers",
        "ttrace doctor                                     what is installed"}},
      {"ttrace calibrate", {"ttrace calibrate ref.h5 noise*.h5 -o tolerances.json"}},
      {"ttrace inspect",
       {"ttrace inspect run/ 'layers.0.*' --kind output --values",
        "ttrace inspect run/ 'layers.0.mlp*' --expression"}},
      {"ttrace lint", {"ttrace lint run/", "ttrace lint run/ --write      a lost manifest.json"}},
      {"ttrace merge", {"ttrace merge run/ -o whole.h5"}},
      {"ttrace selftest", {"ttrace selftest ref.h5 run/ --noise noise*.h5"}},
      {"ttrace report merge", {"ttrace report merge part*.json --json whole.json"}},
      {"ttrace report show", {"ttrace report show compare.json --format html -o page.html"}},
      {"ttrace synth",
       {"ttrace synth -o ref.h5 --tensors 8 --shape 64x64 --kind output",
        "ttrace synth -o run --tensors 8 --shape 64x64 --kind output --mesh tp=2 --place "
        "tp=shard:0"}},
  };
  return kExamples;
}

std::string long_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? "" : concat("--", option.get_lnames().front());
}

// `text` from column `begin` on, where `used` columns of the line are taken already.
std::string described(std::string_view text, std::size_t used) {
  std::string out;
  if (used + 2 > kDescriptions) {
    out += "\n";
    used = 0;
  }
  out.append(kDescriptions - used, ' ');
  std::size_t column = kDescriptions;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    const auto width = static_cast<std::size_t>(
        std::count_if(word.begin(), word.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
    if (column > kDescriptions && column + 1 + width > kColumns) {
      out += concat("\n", std::string(kDescriptions, ' '));
      column = kDescriptions;
    } else if (column > kDescriptions) {
      out += ' ';
      ++column;
    }
    out += word;
    column += width;
    text.remove_prefix(end == text.size() ? end : end + 1);
  }
  return out + "\n";
}

std::string line_of(const CLI::Option& option) {
  std::string left = "  ";
  for (const std::string& name : option.get_snames()) left += concat("-", name, ", ");
  left += long_name(option);
  if (const std::string value = value_name(option); !value.empty()) {
    left += concat(" ", value, option.get_items_expected_max() > 1 ? "..." : "");
  }
  return left + described(option.get_description(), left.size());
}

std::vector<const CLI::Option*> shown_options(const CLI::App& app, bool positional) {
  return app.get_options([positional](const CLI::Option* option) {
    return option->get_positional() == positional && !option->get_group().empty();
  });
}

std::string usage_of(const CLI::App& app) {
  std::string usage = concat("Usage: ", command_path(&app), " [OPTIONS]");
  for (const CLI::Option* option : shown_options(app, true)) {
    const std::string name = option->get_name(true);
    const std::string many = option->get_items_expected_max() > 1 ? "..." : "";
    usage += option->get_required() ? concat(" ", name, many) : concat(" [", name, many, "]");
  }
  return app.get_subcommands(nullptr).empty() ? usage : usage + " COMMAND";
}

std::string examples_of(const CLI::App& app) {
  for (const Example& one : examples()) {
    if (one.command != command_path(&app)) continue;
    std::string text = "\nExamples:\n";
    for (const std::string_view line : one.lines) text += concat("  ", line, "\n");
    return text;
  }
  return "";
}

}  // namespace

std::string command_path(const CLI::App* app) {
  return app->get_parent() == nullptr
             ? "ttrace"
             : concat(command_path(app->get_parent()), " ", app->get_name());
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  std::string help = concat(app->get_description(), "\n", usage_of(*app), "\n", examples_of(*app));
  const auto commands = app->get_subcommands(nullptr);
  if (!commands.empty()) help += "\nCommands:\n";
  for (const CLI::App* command : commands) {
    const std::string name = concat("  ", command->get_name());
    help += name + described(command->get_description(), name.size());
  }
  help += "\n";
  for (const CLI::Option* option : shown_options(*app, true)) {
    const std::string name = concat("  ", option->get_name(true));
    help += name + described(option->get_description(), name.size());
  }
  for (const char* const group : kGroups) {
    bool first = true;
    for (const CLI::Option* option : shown_options(*app, false)) {
      // Every command has it, and the last line of the help of all says so.
      if (option->get_group() != group || long_name(*option) == "--help") continue;
      if (first) help += concat(group, ":\n");
      first = false;
      help += line_of(*option);
    }
  }
  return concat(help, "\n", app->get_footer(), app->get_footer().empty() ? "" : "\n");
}

}  // namespace ttrace::app
