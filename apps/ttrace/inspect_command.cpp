#include <filesystem>
#include <iostream>
#include <memory>

#include "audit/fits.h"
#include "base/error.h"
#include "command.h"
#include "engine/inspect_trace.h"
#include "flags/flag_group.h"
#include "inputs.h"
#include "report/expression_text.h"
#include "specification/specification.h"

namespace ttrace::app {
namespace {

struct InspectFlags {
  std::string trace;
  std::string layout;
  bool values = false;
  bool expression = false;
  std::string specification;
  SelectionFlags selection;
};

// The specification that the user names, or the one that lies in the trace's directory or beside
// it.
std::string specification_file(const InspectFlags& flags) {
  if (!flags.specification.empty()) return flags.specification;
  namespace fs = std::filesystem;
  fs::path trace = flags.trace;
  if (!trace.has_filename()) trace = trace.parent_path();  // "run/"
  for (const fs::path& directory : {trace, trace.parent_path()}) {
    const fs::path file = directory / "specification.json";
    std::error_code unreadable;
    if (fs::is_regular_file(file, unreadable)) return file.string();
  }
  throw base::usage_error(
      "--expression needs a specification: give --specification FILE; a run of one process writes "
      "one with TTRACE_SPECIFICATION=FILE");
}

int run_inspect(const InspectFlags& flags) {
  const OpenedTrace source(flags.trace, flags.layout);
  if (!flags.expression) {
    if (!flags.specification.empty()) {
      throw base::usage_error("--specification needs --expression");
    }
    engine::inspect_trace(*source, flags.selection.selection(), flags.values, std::cout);
    return 0;
  }
  if (flags.values) throw base::usage_error("--expression reads no values; leave --values out");
  const std::string file = specification_file(flags);
  const specification::Specification specification = read_specification(file);
  audit::require_fits(*source, specification, file);
  report::inspect_expressions(*source, specification, flags.selection.selection(), std::cout);
  return 0;
}

}  // namespace

void add_inspect_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("inspect", "list what is in a trace, and how it is cut");
  const auto flags = std::make_shared<InspectFlags>();
  command->add_option("TRACE", flags->trace, "a file or a directory")->required();
  command->add_option("PATTERN", flags->selection.only, "only tensors whose name matches (globs)");
  const FlagGroup what(*command, kWhat);
  what.flag("--values", flags->values, "also read the data: norm, range, non-finite values");
  what.flag("--expression", flags->expression,
            "show what each tensor should follow from, and whether the trace holds that");
  FlagGroup(*command, kTraces)
      .value("--specification FILE", flags->specification,
             "which tensors each one is computed from, for --expression; by default "
             "specification.json beside the trace");
  add_layout_flag(*command, flags->layout);
  flags->selection.add_to(*command);
  command->footer("Exit codes: 0 shown, 2 usage or unreadable input.");
  command->callback([flags, &action] { action = [flags] { return run_inspect(*flags); }; });
}

}  // namespace ttrace::app
