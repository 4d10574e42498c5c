#include <filesystem>
#include <iostream>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "command.h"
#include "engine/calibrate_traces.h"
#include "engine/compare_traces.h"
#include "flags/answer.h"
#include "flags/execution.h"
#include "flags/flag_group.h"
#include "inputs.h"
#include "machine.h"
#include "outputs.h"

namespace ttrace::app {
namespace {

struct CalibrateFlags {
  std::string reference;
  std::vector<std::string> noise;
  std::string output;
  std::string starter;
  unsigned threads = 0;
};

// Returns the rules that a person wrote: a new calibration keeps them.
judge::Policy rules_of_existing(const std::string& path) {
  std::error_code error;
  if (is_stdout(path) || !std::filesystem::is_regular_file(path, error)) return {};
  try {
    return judge::parse_calibration(base::read_text(path), path).rules;
  } catch (const base::InputError& problem) {
    throw base::input_error(problem.what(), "; it is kept, as its rules cannot be read: mend it, ",
                            "remove it, or write to another file");
  }
}

struct Rules {
  std::size_t kept = 0;     // from the file that is replaced
  std::size_t starter = 0;  // made now
};

std::string format_summary(const engine::CalibrationSummary& summary, const CalibrateFlags& flags,
                           const Rules& rules, std::uint64_t bytes) {
  std::string text =
      base::concat(base::plural(summary.tensors - summary.without, "tensor"), " from ",
                   base::plural(flags.noise.size(), "noise run"), " into ",
                   base::printable(flags.output), " (", base::human_bytes(bytes),
                   "); median noise ", base::short_number(summary.median_noise), " of the norm");
  if (summary.silent > 0) text += base::concat(", ", summary.silent, " without any");
  if (summary.chaotic > 0) text += base::concat(", ", summary.chaotic, " too noisy to be checked");
  if (!flags.starter.empty()) text += base::concat(", ", base::plural(rules.starter, "rule"));
  if (rules.kept > 0) {
    text += base::concat(", ", base::plural(rules.kept, "rule"), " kept from the file before");
  }
  return text;
}

int run_calibrate(const CalibrateFlags& flags) {
  judge::Policy kept = rules_of_existing(flags.output);
  Rules rules{kept.size(), 0};
  OutputFile output(flags.output);
  const auto reference = open_and_log(flags.reference);
  std::vector<std::unique_ptr<trace::Source>> runs;
  std::vector<const trace::Source*> noise;
  for (const std::string& path : flags.noise) {
    runs.push_back(open_and_log(path));
    noise.push_back(runs.back().get());
  }
  engine::CalibrationSummary summary;
  judge::Calibration calibration =
      engine::calibrate_traces(*reference, noise, execution_context(flags.threads), summary);
  calibration.rules = std::move(kept);
  if (!flags.starter.empty()) {
    const auto good = open_and_log(flags.starter);
    engine::CompareOptions options;
    options.execution = execution_context(flags.threads);
    options.calibration = &calibration;
    options.calibration_file = flags.output;
    options.today = today();
    const judge::Policy starter =
        engine::starter_rules(engine::compare_traces(*reference, *good, {}, options));
    rules.starter = starter.size();
    // Starter rules come last: the first rule that matches a tensor applies.
    calibration.rules.insert(calibration.rules.end(), starter.begin(), starter.end());
  }
  const std::string text = calibration_text(calibration);
  output.store(text);
  for (const std::string& warning : summary.warnings) base::warn(base::printable(warning));
  (is_stdout(flags.output) ? std::cerr : std::cout)
      << "CALIBRATED  " << format_summary(summary, flags, rules, text.size()) << "\n";
  return 0;
}

}  // namespace

void add_calibrate_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "calibrate", "estimate every tensor's tolerance from perturbed runs of the reference");
  const auto flags = std::make_shared<CalibrateFlags>();
  add_reference(*command, flags->reference)->required();
  command
      ->add_option("NOISE", flags->noise,
                   "runs of the reference with its first activation perturbed; three are best")
      ->required();
  add_output_flag(*command, flags->output,
                  "the tolerance file (JSON) to write; rules of one that is there are kept")
      ->required();
  FlagGroup(*command, kTraces)
      .value("--starter RUN", flags->starter,
             "a run known to be good: rules that would let it pass are written too");
  add_threads_flag(*command, flags->threads);
  command->footer(
      "Exit codes: 0 written, 2 usage, or input or output that cannot be read or written.");
  command->callback([flags, &action] { action = [flags] { return run_calibrate(*flags); }; });
}

}  // namespace ttrace::app
