#include <iostream>
#include <memory>

#include "base/concat.h"
#include "base/number_text.h"
#include "command.h"
#include "engine/lint_trace.h"
#include "trace/hdf5/reader.h"

namespace ttrace::app {
namespace {

int run(const std::string& path, const engine::LintOptions& options) {
  const auto source = trace::hdf5::open_trace(path);
  const engine::LintResult result = engine::lint_trace(*source, options);
  const std::string looked_at = base::concat(
      base::plural(result.tensors, "tensor"), " over ", base::plural(result.ranks, "rank"),
      options.manifest_only ? std::string(", the layout alone")
                            : base::concat(", ", base::plural(result.datasets, "dataset")));
  std::cout << (result.findings.empty() ? "CLEAN  " : "FINDINGS  ");
  if (!result.findings.empty()) std::cout << result.findings.size() << " in ";
  std::cout << looked_at << "\n";
  for (const std::string& finding : result.findings) {
    std::cout << "  " << base::printable(finding) << "\n";
  }
  return result.findings.empty() ? 0 : 1;
}

}  // namespace

void add_lint_command(CLI::App& app, Action& action) {
  struct Flags {
    std::string trace;
    engine::LintOptions options;
  };
  CLI::App* command = app.add_subcommand(
      "lint", "check that a trace is what its manifest says, reading no numbers");
  const auto flags = std::make_shared<Flags>();
  command->add_option("TRACE", flags->trace, "a file or a directory")->required();
  command->add_flag("--manifest-only", flags->options.manifest_only,
                    "check the layout alone, open no rank file");
  command->callback(
      [flags, &action] { action = [flags] { return run(flags->trace, flags->options); }; });
}

}  // namespace ttrace::app
