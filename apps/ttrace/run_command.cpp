#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iostream>
#include <memory>

#include "answer/answer_json.h"
#include "auditing.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "command.h"
#include "comparison.h"
#include "flags/flag_group.h"
#include "flags/traces.h"
#include "inputs.h"
#include "localization.h"
#include "localize/other_start.h"
#include "outputs.h"
#include "process.h"
#include "recording.h"
#include "run_folder.h"
#include "separate_files.h"

namespace ttrace::app {
namespace {

constexpr int kDivergedExit = 1;
constexpr int kInterruptedExit = 3;

struct RunFlags {
  RecordingFlags recording;
  std::string out = "ttrace-run";
  AnswerFlags answer;
};

// The specification to judge by, or empty: jobs of several processes make none.
std::string specification_for(const RunFlags& flags, const RunFolder& folder) {
  if (!flags.recording.specification.empty()) return flags.recording.specification;
  std::error_code error;
  return std::filesystem::exists(folder.specification(), error) ? folder.specification() : "";
}

std::vector<std::string> noise_runs_of(const RunFlags& flags, const RunFolder& folder) {
  std::vector<std::string> files;
  for (std::uint64_t seed = 1; seed <= flags.recording.noise_runs.value_or(kNoiseRuns); ++seed) {
    files.push_back(folder.noise_run(seed));
  }
  return files;
}

ComparisonFlags comparison_of(const RunFlags& flags, const RunFolder& folder) {
  ComparisonFlags comparison;
  comparison.pair.reference = folder.reference();
  comparison.pair.candidate = folder.candidate();
  std::error_code error;
  for (const std::string& noise : noise_runs_of(flags, folder)) {
    if (std::filesystem::exists(noise, error)) comparison.pair.noise.push_back(noise);
  }
  return comparison;
}

// Asks for a first answer. Other weights, data or masks explain everything, and where an error is
// far beyond what one noise run allows, more of them would not let it pass. Says nothing if the
// user stops it: the next job does not begin then.
std::string why_enough(const RunFlags& flags, const RunFolder& folder, std::uint64_t noise_runs,
                       const std::atomic<bool>& stopping) {
  constexpr double kFarBeyond = 100;
  const ComparisonFlags asked = comparison_of(flags, folder);
  const comparison::CompareReport report = Comparison(asked).run(nullptr, {}, &stopping);
  if (report.interrupted) return "";
  if (report.other_start) return base::render(localize::describe_start(*report.other_start));
  if (noise_runs == 0 || report.findings.empty()) return "";
  const auto& first = report.results[report.findings.front().result];
  // A share that is no number is beyond everything, too.
  const bool is_far = judge::is_bad(first.outcome) && first.comparison &&
                      !(comparison::told_share(first) < kFarBeyond);
  return is_far ? "the first answer is beyond any noise" : "";
}

// Explains what diverged, into a file and, if `shown`, on the screen.
void localize(const ComparisonFlags& comparison, const comparison::CompareReport& report,
              const std::string& specification, const RunFolder& folder,
              const AnswerFlags& answer_flags, bool shown) {
  LocalizeFlags flags;
  flags.comparison.pair.reference = comparison.pair.reference;
  flags.comparison.pair.candidate = comparison.pair.candidate;
  flags.specification = specification;
  SharedLocalization localization(flags, &report);
  run_share(localization, {}, false);
  const GivenAnswer answer = localization.answer();
  if (!shown) {
    OutputFile(folder.localization()).store(answer::json_of(answer.answer(report::Detail::kAll)));
    return;
  }
  std::cout << "\n";
  AnswerFlags files;
  files.json() = folder.localization();
  files.colour = answer_flags.colour;
  files.all = answer_flags.all;
  AnswerOutput(files).write(answer);
}

// Says which files lie where, and what to type to get the answer again without running anything.
void tell_what_is_kept(const std::string& once_more, const RunFolder& folder) {
  std::string names;
  for (const std::string& name : folder.kept())
    names += base::concat(names.empty() ? "" : ", ", name);
  std::cout << "\nkept in " << base::printable(folder.path()) << "/  " << names
            << "\nonce more  ttrace " << base::printable(once_more) << "\n";
}

std::string words_of(const RunFlags& flags) {
  const bool alone = flags.recording.candidate.empty();
  std::string text = alone ? "run: " : "reference: ";
  for (const std::string& word : flags.recording.command) text += base::printable(word) + " ";
  if (!alone) text += base::concat("\ncandidate: ", base::printable(flags.recording.candidate));
  return text + "\n";
}

// Compares what was recorded, and explains what diverged.
int compare(const RunFlags& flags, const RunFolder& folder, AnswerOutput& output, bool shown) {
  const ComparisonFlags asked = comparison_of(flags, folder);
  SharedComparison comparison(asked);
  run_share(comparison, {}, false);
  const int exit_code = output.write(comparison.answer());
  const std::string specification = specification_for(flags, folder);
  if (exit_code == kDivergedExit && !specification.empty()) {
    localize(asked, comparison.report(), specification, folder, flags.answer, shown);
  }
  if (!shown) return exit_code;
  std::string once_more = base::concat("compare ", asked.pair.reference, " ", asked.pair.candidate);
  if (!asked.pair.noise.empty())
    once_more += base::concat(" --noise ", folder.path(), "/noise*.h5");
  tell_what_is_kept(once_more, folder);
  return exit_code;
}

// Audits the only run: holds its tensors against what they were computed from.
int audit(const RunFlags& flags, const RunFolder& folder, AnswerOutput& output, bool shown) {
  AuditedRunFlags asked;
  asked.run = folder.candidate();
  std::string once_more = base::concat("audit ", asked.run);
  asked.specification = specification_for(flags, folder);
  if (asked.specification.empty()) {
    base::announce(base::concat(
        "without a specification little can be judged: a job of several processes makes "
        "none (",
        folder.log("run"),
        " says why one process made none); make it with one, `ttrace run "
        "--out one -- python train.py`, and give it with --specification one/specification.json"));
  } else {
    once_more += base::concat(" --specification ", asked.specification);
  }
  SharedAudit audit(asked);
  run_share(audit, {}, false);
  const int exit_code = output.write(audit.answer());
  if (shown) tell_what_is_kept(once_more, folder);
  return exit_code;
}

// Before any job runs, and before the folder's files are replaced.
void require_usable_specification(const RunFlags& flags) {
  const std::string& file = flags.recording.specification;
  if (file.empty()) return;
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  if (std::filesystem::equivalent(folder, flags.out, error)) {
    throw base::usage_error("--specification ", base::printable(file), ": lies in ",
                            base::printable(flags.out),
                            ", whose files are replaced; name another folder with --out");
  }
  read_specification(file);
}

// Throws a usage error if a file of the answer is another one, or one that the run makes.
void require_not_of_folder(const RunFlags& flags, const AnswerFlags& answer,
                           const RunFolder& folder) {
  std::vector<GivenFile> files{{"--specification", flags.recording.specification}};
  for (std::size_t i = 0; i < answer.files.size(); ++i) {
    if (is_github(i, answer.files[i])) continue;
    files.push_back({flag_of_format(i), answer.files[i], true, false});
  }
  for (const std::string& made :
       {folder.reference(), folder.specification(), folder.localization()}) {
    files.push_back({"a file of --out", made, false, false});
  }
  for (const std::string& noise : noise_runs_of(flags, folder)) {
    files.push_back({"a file of --out", noise, false, false});
  }
  files.push_back({"a file of --out", folder.candidate(), false, true});
  require_separate(files);
}

int run_jobs_and_answer(const RunFlags& flags, FinishedJobs& finished) {
  seconds_in("--limit", flags.recording.limit);  // a wrong one is refused before anything is made
  require_usable_specification(flags);
  RunFolder folder(flags.out);
  AnswerFlags answer = flags.answer;
  const bool alone = flags.recording.candidate.empty();
  if (answer.json().empty()) answer.json() = alone ? folder.audit() : folder.comparison();
  if (answer.page().empty()) answer.page() = folder.page();
  require_not_of_folder(flags, answer, folder);
  if (finished.count() == 0) folder.begin(words_of(flags));
  AnswerOutput output(answer);
  {
    const StopSignal signal;
    const std::string stopped = record(
        flags.recording, folder, finished,
        [&](std::uint64_t noise_runs) {
          return why_enough(flags, folder, noise_runs, signal.flag());
        },
        signal.flag());
    if (!stopped.empty()) {
      std::cout << "INCONCLUSIVE  interrupted while " << stopped << " ran, so nothing was "
                << (alone ? "audited" : "compared") << "; its processes are ended\n";
      return kInterruptedExit;
    }
  }
  const bool to_stdout = std::any_of(answer.files.begin(), answer.files.end(), is_stdout);
  const bool shown = !base::is_quiet() && answer.format != "line" && !to_stdout;
  return alone ? audit(flags, folder, output, shown) : compare(flags, folder, output, shown);
}

constexpr const char* kHowItRuns =
    "With --candidate the reference runs first, then the candidate, then the noise runs, and they "
    "are\n"
    "compared. Without it the one command runs and is audited, by the specification that it makes "
    "if\n"
    "it is one process. Each job runs until the trace of its last recorded step is written. --out\n"
    "keeps traces, reports and what the jobs printed; what an earlier `ttrace run` made there is\n"
    "replaced, and a folder that it did not make is refused.\n"
    "Exit codes: those of compare or audit; 2 where a job fails or records nothing, 3 where it is\n"
    "interrupted.";

}  // namespace

void add_run_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "run", "record and judge: from one or two training commands to the answer");
  const auto flags = std::make_shared<RunFlags>();
  RecordingFlags& recording = flags->recording;
  command
      ->add_option("COMMAND", recording.command,
                   "the command of the reference or the run, behind --")
      ->required();
  const FlagGroup traces(*command, kTraces);
  const FlagGroup work(*command, kWork);
  CLI::Option* candidate = traces.value("--candidate COMMAND", recording.candidate,
                                        "the candidate's command, in quotes");
  candidate->check([](const std::string& words) { return words.empty() ? "is empty" : ""; });
  traces
      .value("--noise-runs N", recording.noise_runs,
             "number of noise runs (default: 3, or as many as can change the answer)")
      ->check(CLI::Range(0, 99))
      ->needs(candidate);
  add_specification_flag(*command, recording.specification);
  FlagGroup(*command, kWhat)
      .value("--steps STEPS", recording.steps,
             "steps to record, such as 0,10-12 (default: +2, the first two)");
  FlagGroup(*command, kAnswer)
      .value("--out FOLDER", flags->out, "the folder to keep everything in (default: ttrace-run)");
  work.value("--limit TIME", recording.limit, "most time for every job (default: 1h)");
  work.flag("--to-end", recording.to_end, "let every job go on behind its recorded steps");
  flags->answer.add_to(*command, kAllOfComparison);
  command->footer(kHowItRuns);
  command->callback([flags, &action] {
    const auto finished = std::make_shared<FinishedJobs>();
    action = [flags, finished] { return run_jobs_and_answer(*flags, *finished); };
  });
}

}  // namespace ttrace::app
