#include <iostream>
#include <memory>

#include "command.h"
#include "flags/flag_group.h"
#include "manual/completions.h"
#include "manual/man_page.h"
#include "manual/reference.h"

namespace ttrace::app {

void add_manual_commands(CLI::App& app, Action& action) {
  CLI::App* completions =
      app.add_subcommand("completions", "print the script that completes commands in a shell");
  const auto shell = std::make_shared<std::string>();
  std::vector<std::string> names;
  for (const Shell& known : shells()) names.emplace_back(known.name);
  completions->add_option("SHELL", *shell, "bash, fish or zsh")
      ->required()
      ->check(CLI::IsMember(names));
  completions->footer("Exit codes: 0 printed, 2 usage.");
  completions->callback([&app, &action, shell] {
    action = [&app, shell] {
      for (const Shell& known : shells()) {
        if (known.name == *shell) std::cout << known.completions(describe(app));
      }
      return 0;
    };
  });

  CLI::App* man = app.add_subcommand("man", "print the manual page");
  const auto format = std::make_shared<std::string>("roff");
  FlagGroup(*man, kAnswer)
      .choice("--format", *format, {"roff", "markdown"}, "for `man -l`, or the page of all flags");
  man->footer("Exit codes: 0 printed, 2 usage.");
  man->callback([&app, &action, format] {
    action = [&app, format] {
      std::cout << (*format == "roff" ? man_page(describe(app)) : reference(describe(app)));
      return 0;
    };
  });
}

}  // namespace ttrace::app
