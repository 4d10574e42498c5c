#include "manual/description.h"

#include <algorithm>

#include "base/text.h"
#include "flags/flag_group.h"

namespace ttrace::app {
namespace {

using base::concat;

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
        "ttrace audit run/ --specification step.json       without a reference"}},
      {"ttrace compare", {"ttrace compare ref.h5 run/ --noise noise*.h5 --html page.html"}},
      {"ttrace audit",
       {"ttrace audit run/ --specification step.json       does every tensor follow from its own?",
        "ttrace audit run/                                 replicas and optimizer steps alone"}},
      {"ttrace localize",
       {"ttrace localize ref.h5 run/ --specification step.json --report compare.json"}},
      {"ttrace run",
       {"ttrace run --candidate 'torchrun --nproc-per-node 2 train.py' -- python train.py",
        "ttrace run -- python train.py      no reference: record, and audit"}},
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
  };
  return kExamples;
}

std::vector<std::string_view> examples_of(const std::string& path) {
  for (const Example& one : examples()) {
    if (one.command == path) return one.lines;
  }
  return {};
}

DescribedOption described_option(const CLI::Option& option) {
  DescribedOption described;
  for (const std::string& name : option.get_snames()) described.names.push_back(concat("-", name));
  for (const std::string& name : option.get_lnames()) described.names.push_back(concat("--", name));
  described.value = option.get_positional() ? option.get_name(true) : value_name(option);
  described.takes_many = option.get_items_expected_max() > 1;
  described.required = option.get_required();
  described.group = option.get_group();
  described.help = option.get_description();
  return described;
}

}  // namespace

DescribedCommand describe(const CLI::App& app) {
  DescribedCommand described{
      app.get_name(), command_path(&app), app.get_description(), {}, {}, {}, {}, app.get_footer()};
  described.examples = examples_of(described.path);
  for (const CLI::Option* option : app.get_options()) {
    // Every command has --help, and the help of all says so.
    if (option->check_lname("help")) continue;
    (option->get_positional() ? described.arguments : described.flags)
        .push_back(described_option(*option));
  }
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    described.commands.push_back(describe(*command));
  }
  return described;
}

std::string command_path(const CLI::App* app) {
  return app->get_parent() == nullptr
             ? "ttrace"
             : concat(command_path(app->get_parent()), " ", app->get_name());
}

std::string usage_of(const DescribedCommand& command) {
  std::string usage = concat(command.path, " [OPTIONS]");
  for (const DescribedOption& argument : command.arguments) {
    const std::string name = concat(argument.value, argument.takes_many ? "..." : "");
    usage += argument.required ? concat(" ", name) : concat(" [", name, "]");
  }
  return command.commands.empty() ? usage : usage + " COMMAND";
}

std::string spelled(const DescribedOption& flag) {
  std::string text;
  for (const std::string& name : flag.names) text += concat(text.empty() ? "" : ", ", name);
  if (!flag.value.empty()) text += concat(" ", flag.value, flag.takes_many ? "..." : "");
  return text;
}

std::vector<const DescribedCommand*> all_commands(const DescribedCommand& command) {
  std::vector<const DescribedCommand*> all{&command};
  for (const DescribedCommand& below : command.commands) {
    const auto more = all_commands(below);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace ttrace::app
