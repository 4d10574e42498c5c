#include <iostream>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/number_text.h"
#include "command.h"
#include "engine/selftest_traces.h"
#include "output_file.h"
#include "report/selftest_json.h"
#include "report/selftest_text.h"
#include "rules_files.h"
#include "tolerance/calibration.h"
#include "trace/hdf5/reader.h"
#include "version.h"

namespace ttrace::app {
namespace {

struct Flags {
  std::string reference;
  std::string candidate;
  std::vector<std::string> noise;
  std::string tolerance;
  std::string layout;
  std::string map;
  std::string json;
  bool all = false;
  unsigned threads = 0;
  SelectionFlags selection;
};

int run(const Flags& flags) {
  std::vector<std::string> inputs = flags.noise;
  inputs.insert(inputs.end(), {flags.reference, flags.candidate});
  for (const std::string& file : {flags.tolerance, flags.layout, flags.map}) {
    if (!file.empty()) inputs.push_back(file);
  }
  for (const std::string& input : inputs) require_not_of_trace(flags.json, input);
  OutputFile json(flags.json);
  const auto reference = trace::hdf5::open_trace(flags.reference);
  const OpenedTrace candidate(flags.candidate, flags.layout);
  std::vector<std::unique_ptr<trace::Source>> runs;
  std::vector<const trace::Source*> noise;
  for (const std::string& path : flags.noise) {
    runs.push_back(trace::hdf5::open_trace(path));
    noise.push_back(runs.back().get());
  }
  engine::CompareOptions options;
  options.selection = flags.selection.selection();
  options.threads = flags.threads;
  if (!flags.map.empty()) {
    options.map = layout::parse_map_rules(rules_text(flags.map), flags.map);
  }
  std::optional<tolerance::Calibration> calibration;
  if (!flags.tolerance.empty()) {
    calibration = tolerance::parse_calibration(rules_text(flags.tolerance), flags.tolerance);
    options.calibration = &*calibration;
    options.calibration_file = flags.tolerance;
    options.today = today();
  }
  report::SelftestReport report = engine::selftest_traces(*reference, *candidate, noise, options);
  report.environment.version = version();

  // As in compare: a full disk must not keep the answer back.
  std::optional<base::Error> unwritten;
  try {
    json.store(report::selftest_json(report));
  } catch (const base::Error& error) {
    unwritten = error;
  }
  for (const std::string& warning : report.warnings) base::warn(base::printable(warning));
  report::write_selftest(report, flags.all, std::cout);
  std::cout.flush();
  if (unwritten) throw *unwritten;
  return report::exit_code(report);
}

}  // namespace

void add_selftest_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "selftest", "which faults would comparing this healthy pair catch? tries them in memory");
  const auto flags = std::make_shared<Flags>();
  command->add_option("REF", flags->reference, "the trusted trace: a file or a directory")
      ->required();
  command->add_option("RUN", flags->candidate, "a trace that matches it: a file or a directory")
      ->required();
  command->add_option("--noise", flags->noise,
                      "a run of the reference with its first activation disturbed (repeatable; "
                      "three are best)");
  command->add_option("--tolerance", flags->tolerance,
                      "tolerances (JSON) that `ttrace calibrate` wrote, with rules on top");
  command->add_option("--json", flags->json, "also write the answer as JSON to this file");
  command->add_flag("--all", flags->all, "list every fault that is missed");
  command->add_option("--threads", flags->threads, "number of threads (default: one per core)");
  add_layout_flag(*command, flags->layout);
  command->add_option("--map", flags->map,
                      "rules (JSON) that rename, split, join, transpose, trim or pad tensors");
  flags->selection.add_to(*command);
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace ttrace::app
