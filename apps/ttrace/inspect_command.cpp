#include <iostream>
#include <memory>

#include "command.h"
#include "engine/inspect_trace.h"
#include "inputs.h"

namespace ttrace::app {

void add_inspect_command(CLI::App& app, Action& action) {
  struct Flags {
    std::string trace;
    std::string layout;
    bool values = false;
    SelectionFlags selection;
  };
  CLI::App* command = app.add_subcommand("inspect", "list what is in a trace, and how it is cut");
  const auto flags = std::make_shared<Flags>();
  command->add_option("TRACE", flags->trace, "a file or a directory")->required();
  command->add_option("PATTERN", flags->selection.only, "only tensors whose name matches (globs)");
  command->add_flag("--values", flags->values,
                    "also read the data: norm, range, non-finite values");
  add_layout_flag(*command, flags->layout);
  flags->selection.add_to(*command);
  command->callback([flags, &action] {
    action = [flags] {
      const OpenedTrace source(flags->trace, flags->layout);
      engine::inspect_trace(*source, flags->selection.selection(), flags->values, std::cout);
      return 0;
    };
  });
}

}  // namespace ttrace::app
