#include <filesystem>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "command.h"
#include "engine/merge_trace.h"
#include "flags/answer.h"
#include "flags/flag_group.h"
#include "inputs.h"
#include "trace/hdf5/trace_files.h"
#include "trace/hdf5/writer.h"

namespace ttrace::app {
namespace {

struct MergeFlags {
  std::string run;
  std::string output;
  std::string layout;
  bool force = false;
  SelectionFlags selection;
};

// Called before the run is opened, which may take a while.
void require_may_write(const MergeFlags& flags) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(flags.output, error);
  if (!flags.force && std::filesystem::is_regular_file(status)) {
    throw base::input_error(flags.output,
                            ": is there already; give another name, or --force to replace it");
  }
  base::require_free_place(flags.output, base::Existing::kReplaced);
}

int run_merge(const MergeFlags& flags) {
  require_may_write(flags);
  const OpenedTrace source(flags.run, flags.layout);
  const auto sink = trace::hdf5::create_file(
      flags.output, flags.force ? base::Existing::kReplaced : base::Existing::kKept);
  const engine::MergeResult result =
      engine::merge_trace(*source, flags.selection.selection(), *sink);
  for (const std::string& warning : result.warnings) base::warn(base::printable(warning));
  // These explain the exit code.
  for (const std::string& problem : result.left_out) {
    base::warn_even_if_quiet(base::printable(problem));
  }
  std::cout << (result.left_out.empty() ? "MERGED  " : "INCOMPLETE  ")
            << base::plural(result.tensors, "tensor") << " (" << base::human_bytes(result.bytes)
            << ") into " << base::printable(flags.output);
  if (!result.left_out.empty()) {
    std::cout << ", " << result.left_out.size() << " left out because they could not be read";
  }
  std::cout << "\n";
  return result.left_out.empty() ? 0 : 3;
}

}  // namespace

void add_merge_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("merge", "put the shards of a run together into one file");
  const auto flags = std::make_shared<MergeFlags>();
  command->add_option("RUN", flags->run, "a file or a directory")->required();
  add_output_flag(*command, flags->output, "the HDF5 file to write")->required();
  FlagGroup(*command, kAnswer)
      .flag("--force", flags->force, "replace the file if it is there already");
  add_layout_flag(*command, flags->layout);
  flags->selection.add_to(*command);
  command->footer(
      "Exit codes: 0 written, 2 usage, or input or output that cannot be read or written, 3 "
      "written\n"
      "without the tensors that could not be read.");
  command->callback([flags, &action] { action = [flags] { return run_merge(*flags); }; });
}

}  // namespace ttrace::app
