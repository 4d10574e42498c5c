#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "command.h"
#include "engine/lint_trace.h"
#include "flags/flag_group.h"
#include "inputs.h"
#include "layout/mesh.h"
#include "outputs.h"
#include "report/terminal_text.h"
#include "report/text_report.h"
#include "terminal.h"
#include "trace/open/open_trace.h"

namespace ttrace::app {
namespace {

namespace fs = std::filesystem;

struct LintFlags {
  std::string trace;
  std::string layout;
  engine::LintOptions options;
  bool write = false;
  std::string why_not_written;  // why an existing manifest.json is not replaced; or empty
};

std::string manifest_path(const std::string& run) {
  return (fs::path(run) / "manifest.json").string();
}

// Whether the file could be valid JSON. A file that cannot be read, or is too large, may be valid.
bool may_be_json(const std::string& path) {
  std::error_code error;
  if (fs::file_size(path, error) == 0) return false;
  std::string text;
  try {
    text = base::read_text(path);
  } catch (const base::Error&) {
    return true;
  }
  try {
    const base::JsonDocument document(text, path);
    return true;
  } catch (const base::Error&) {
    return false;
  }
}

// Why the file at `path` must not be replaced, or empty. Only a manifest.json that its writer did
// not finish may be replaced, not one of a later format or one edited by hand.
std::string refusal_to_replace(const std::string& path) {
  std::error_code error;
  const auto status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) return "";
  if (fs::is_regular_file(status) && !may_be_json(path)) return "";
  return base::concat(path,
                      ": is there already and is not replaced; move it away to have it "
                      "rebuilt from the rank files");
}

struct Written {
  std::string line;
  std::vector<std::string> findings;
};

Written write_manifest(const LintFlags& flags) {
  std::error_code error;
  const auto status = fs::status(flags.trace, error);
  if (!fs::exists(status)) {
    throw base::input_error(flags.trace, ": ",
                            error ? error.message() : "no such file or directory");
  }
  if (!fs::is_directory(status)) {
    throw base::usage_error("--write rebuilds the manifest.json of a directory of rank files; ",
                            flags.trace, " is a file, which embeds its manifest");
  }
  if (!flags.why_not_written.empty()) throw base::input_error(flags.why_not_written);
  const engine::RebuiltManifest rebuilt = engine::rebuild_manifest(
      flags.trace, trace::ranks_with_files(flags.trace),
      [&flags](std::uint64_t rank) { return trace::read_rank_manifest(flags.trace, rank); });
  const std::string path = manifest_path(flags.trace);
  // Opened only now, so that a crash of HDF5 leaves nothing behind.
  OutputFile(path).store(rebuilt.text);
  return {base::concat("WROTE  ", path, " from the parts of ", rebuilt.parts, " of ",
                       base::plural(rebuilt.ranks, "rank")),
          rebuilt.findings};
}

void lint_ranges(const trace::Source& source, engine::LintResult& result) {
  std::set<std::string> files;
  for (const std::uint64_t rank : layout::ranks_of(source.manifest())) {
    if (!source.rank_problem(rank)) files.insert(source.rank_file(rank));
  }
  for (const std::string& file : files) {
    trace::RangeCheck check = trace::check_ranges(file);
    std::move(check.findings.begin(), check.findings.end(), std::back_inserter(result.findings));
    if (!check.warning.empty()) result.warnings.push_back(std::move(check.warning));
  }
}

int run_lint(const LintFlags& flags) {
  Written written;
  if (flags.write) written = write_manifest(flags);
  const OpenedTrace source(flags.trace, flags.layout);
  engine::LintResult result = engine::lint_trace(*source, flags.options);
  for (const std::string& finding : written.findings) {
    const auto& found = result.findings;
    if (std::find(found.begin(), found.end(), finding) == found.end()) {
      result.findings.push_back(finding);
    }
  }
  if (!flags.options.manifest_only) {
    lint_ranges(*source, result);
    for (std::string& stray : files_of_no_rank(flags.trace, *source)) {
      result.findings.push_back(std::move(stray));
    }
  }
  const std::string looked_at = base::concat(
      base::plural(result.tensors, "tensor"), " over ", base::plural(result.ranks, "rank"),
      flags.options.manifest_only ? std::string(", the layout alone")
                                  : base::concat(", ", base::plural(result.datasets, "dataset")));
  std::cout << (result.findings.empty() ? "CLEAN  " : "FINDINGS  ");
  if (!result.findings.empty()) std::cout << result.findings.size() << " in ";
  std::cout << looked_at << "\n";
  if (flags.write) std::cout << base::printable(written.line) << "\n";
  const std::size_t width = text_width(STDOUT_FILENO);
  for (const std::string& finding : result.findings) {
    std::cout << report::folded("  " + base::shortened(base::printable(finding)), width) << "\n";
  }
  for (const std::string& warning : result.warnings) {
    std::cout << report::folded("  warning: " + base::shortened(base::printable(warning)), width)
              << "\n";
  }
  return result.findings.empty() ? 0 : 1;
}

}  // namespace

void add_lint_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "lint", "check that a trace is what its manifest says, reading no numbers");
  const auto flags = std::make_shared<LintFlags>();
  command->add_option("TRACE", flags->trace, "a file or a directory")->required();
  FlagGroup(*command, kWhat)
      .flag("--manifest-only", flags->options.manifest_only,
            "check the layout alone, open no rank file");
  add_layout_flag(*command, flags->layout);
  FlagGroup(*command, kAnswer)
      .flag("--write", flags->write,
            "first rebuild a lost manifest.json from the parts in the rank files");
  command->footer("Exit codes: 0 clean, 1 findings, 2 usage or unreadable input.");
  command->callback([flags, &action] {
    // Outside of the action, which starts again after a crash of HDF5 and could then find its own
    // output.
    if (flags->write) flags->why_not_written = refusal_to_replace(manifest_path(flags->trace));
    action = [flags] { return run_lint(*flags); };
  });
}

}  // namespace ttrace::app
