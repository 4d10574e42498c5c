#include "flags/traces.h"

#include "flags/execution.h"
#include "flags/flag_group.h"

namespace ttrace::app {

CLI::Option* add_reference(CLI::App& command, std::string& path) {
  return command.add_option("REF", path, "the trusted trace: a file or a directory");
}

void add_noise_flag(CLI::App& command, std::vector<std::string>& paths) {
  FlagGroup(command, kTraces)
      .value("--noise RUN", paths, "perturbed runs of the reference (noise runs); three are best");
}

void add_layout_flag(CLI::App& command, std::string& path) {
  FlagGroup(command, kTraces)
      .value("--layout FILE", path, "rules that override the layouts of the run's manifest");
}

void add_specification_flag(CLI::App& command, std::string& path) {
  FlagGroup(command, kTraces)
      .value("--specification FILE", path, "which tensors each one is computed from, and how");
}

void JudgedPairFlags::add_to(CLI::App& command, const std::string& candidate_is) {
  add_reference(command, reference)->required();
  command.add_option("RUN", candidate, candidate_is + ": a file or a directory")->required();
  add_rules_to(command);
}

void JudgedPairFlags::add_rules_to(CLI::App& command) {
  const FlagGroup traces(command, kTraces);
  add_noise_flag(command, noise);
  traces.value("--tolerance FILE", tolerance,
               "tolerances that `ttrace calibrate` wrote, with rules on top");
  add_threads_flag(command, threads);
  add_layout_flag(command, layout);
  traces.value("--map FILE", map, "rules that rename, split, join, transpose, trim or pad tensors");
  selection.add_to(command);
}

}  // namespace ttrace::app
