#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "command.h"
#include "comparison.h"
#include "flags/flag_group.h"
#include "localization.h"
#include "outputs.h"
#include "process.h"
#include "recording.h"
#include "run_folder.h"

namespace ttrace::app {
namespace {

constexpr int kDivergedExit = 1;
constexpr int kInterruptedExit = 3;

struct RunFlags {
  RecordingFlags recording;
  std::string out = "ttrace-run";
  AnswerFlags answer;
};

ComparisonFlags comparison_of(const RunFlags& flags, const RunFolder& folder) {
  ComparisonFlags comparison;
  comparison.pair.reference = folder.reference();
  comparison.pair.candidate = folder.candidate();
  for (std::uint64_t seed = 1; seed <= flags.recording.noise_runs; ++seed) {
    comparison.pair.noise.push_back(folder.noise_run(seed));
  }
  return comparison;
}

// Explains what diverged, into a file and, if `shown`, on the screen.
void localize(const ComparisonFlags& comparison, const comparison::CompareReport& report,
              const RunFolder& folder, const AnswerFlags& answer_flags, bool shown) {
  LocalizeFlags flags;
  flags.comparison.pair.reference = comparison.pair.reference;
  flags.comparison.pair.candidate = comparison.pair.candidate;
  flags.specification = folder.specification();
  flags.answer.json() = folder.localization();
  flags.answer.colour = answer_flags.colour;
  flags.answer.all = answer_flags.all;
  OutputFile no_plan("");
  if (!shown) {
    OutputFile json(folder.localization());
    with_localization(flags, no_plan, &report, [&json](const Answer& answer) {
      json.store(answer.json(report::Detail::kAll));
      return answer.exit_code;
    });
    return;
  }
  std::cout << "\n";
  AnswerOutput output(flags.answer);
  with_localization(flags, no_plan, &report,
                    [&output](const Answer& answer) { return output.write(answer); });
}

// Says what lies where, and what to type to compare again without running anything.
void tell_what_is_kept(const ComparisonFlags& comparison, const RunFolder& folder) {
  std::string names;
  for (const std::string& name : folder.kept())
    names += base::concat(names.empty() ? "" : ", ", name);
  std::cout << "\nkept in " << base::printable(folder.path()) << "/  " << names
            << "\nonce more  ttrace compare " << base::printable(comparison.pair.reference) << " "
            << base::printable(comparison.pair.candidate);
  if (!comparison.pair.noise.empty()) {
    std::cout << " --noise " << base::printable(folder.path()) << "/noise*.h5";
  }
  std::cout << "\n";
}

std::string words_of(const RunFlags& flags) {
  std::string text = "reference: ";
  for (const std::string& word : flags.recording.reference) text += base::printable(word) + " ";
  return base::concat(text, "\ncandidate: ", base::printable(flags.recording.candidate), "\n");
}

int run_jobs_and_compare(const RunFlags& flags, FinishedJobs& finished) {
  seconds_in(flags.recording.limit);  // a wrong one is refused before anything is made
  RunFolder folder(flags.out);
  if (finished.count() == 0) folder.begin(words_of(flags));
  AnswerFlags answer = flags.answer;
  if (answer.json().empty()) answer.json() = folder.comparison();
  if (answer.page().empty()) answer.page() = folder.page();
  require_own_files(answer, {});
  AnswerOutput output(answer);
  {
    const StopSignal signal;
    const std::string stopped = record(flags.recording, folder, finished, signal.flag());
    if (!stopped.empty()) {
      std::cout << "INCONCLUSIVE  interrupted while " << stopped
                << " ran, so nothing was compared; its processes are ended\n";
      return kInterruptedExit;
    }
  }
  const ComparisonFlags asked = comparison_of(flags, folder);
  SharedComparison comparison(asked);
  run_share(comparison, {}, false);
  const comparison::CompareReport& report = comparison.report();
  const int exit_code = output.write(comparison.answer());
  const bool to_stdout = std::any_of(answer.files.begin(), answer.files.end(), is_stdout);
  const bool shown = !base::is_quiet() && answer.format != "line" && !to_stdout;
  std::error_code error;
  if (exit_code == kDivergedExit && std::filesystem::exists(folder.specification(), error)) {
    localize(asked, report, folder, answer, shown);
  }
  if (shown) tell_what_is_kept(asked, folder);
  return exit_code;
}

constexpr const char* kHowItRuns =
    "The reference runs first, then the candidate, then the noise runs, each until the trace of "
    "its\n"
    "last recorded step is written. --out keeps traces, reports and what the jobs printed; what "
    "an\n"
    "earlier `ttrace run` made there is replaced, and a folder that it did not make is refused.\n"
    "Exit codes: those of compare; 2 where a job fails or records nothing, 3 where it is "
    "interrupted.";

}  // namespace

void add_run_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "run", "record, compare and explain: from two training commands to the answer");
  const auto flags = std::make_shared<RunFlags>();
  RecordingFlags& recording = flags->recording;
  command->add_option("COMMAND", recording.reference, "the reference's command, behind --")
      ->required();
  const FlagGroup traces(*command, kTraces);
  const FlagGroup work(*command, kWork);
  traces.value("--candidate COMMAND", recording.candidate, "the candidate's command, in quotes")
      ->required();
  traces.value("--noise-runs N", recording.noise_runs, "number of noise runs (default: 3)")
      ->check(CLI::Range(0, 99));
  FlagGroup(*command, kWhat)
      .value("--steps STEPS", recording.steps,
             "steps to record, such as 0,10-12 (default: the first)");
  FlagGroup(*command, kAnswer)
      .value("--out FOLDER", flags->out, "the folder to keep everything in (default: ttrace-run)");
  work.value("--limit TIME", recording.limit, "most time for every job (default: 1h)");
  work.flag("--to-end", recording.to_end, "let every job go on behind its recorded steps");
  flags->answer.add_to(*command, kAllOfComparison);
  command->footer(kHowItRuns);
  command->callback([flags, &action] {
    const auto finished = std::make_shared<FinishedJobs>();
    action = [flags, finished] { return run_jobs_and_compare(*flags, *finished); };
  });
}

}  // namespace ttrace::app
