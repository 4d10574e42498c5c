#include <memory>
#include <optional>

#include "base/error.h"
#include "command.h"
#include "flags/flag_group.h"
#include "outputs.h"
#include "watching.h"

namespace ttrace::app {
namespace {

void require_own_inputs(const WatchFlags& flags) {
  const JudgedPairFlags& pair = flags.judge.pair;
  for (const std::string& file : flags.answer.files) {
    if (is_stdout(file)) {
      throw base::usage_error(
          "a report cannot go to standard output, which has a line for each step; give a file");
    }
  }
  if (!flags.judge.audits()) return;
  if (!pair.noise.empty()) throw base::usage_error("--noise needs --reference, whose noise it is");
  if (!pair.map.empty()) throw base::usage_error("--map needs --reference, to rename it to");
}

constexpr const char* kHowItWatches =
    "Prints a line for each step that all ranks have written, with what changed since the step "
    "before,\n"
    "and last the verdict. Ends when the last rank has closed the trace, after --timeout without a "
    "step,\n"
    "or on Ctrl-C. Start it before the job: a trace that is complete already is an earlier run's "
    "and is\n"
    "passed over. --on-divergence reads TTRACE_WATCH_REPORT, a file in JSON, and\n"
    "TTRACE_WATCH_HEADLINE, _STEP and _RUN. Files are of the first step that diverged, or else the "
    "last.\n"
    "Exit codes: those of compare; 3 also at --timeout and on Ctrl-C.";

}  // namespace

void add_watch_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("watch", "judge every step of a run while its job still writes it");
  const auto flags = std::make_shared<WatchFlags>();
  JudgedPairFlags& pair = flags->judge.pair;
  command->add_option("RUN", pair.candidate, "the trace that the job writes, or will write")
      ->required();
  const FlagGroup traces(*command, kTraces);
  CLI::Option* const reference =
      traces.value("--reference REF", pair.reference, "the trusted trace to compare with");
  add_specification_flag(*command, flags->judge.specification);
  reference->excludes("--specification");
  pair.add_rules_to(*command);
  flags->answer.add_files_to(*command);
  const FlagGroup work(*command, kWork);
  work.value("--timeout TIME", flags->timeout, "end after this time without a step (default: 10m)");
  work.value("--on-divergence COMMAND", flags->on_divergence,
             "a command to run at the first step that diverges");
  work.value("--command-limit TIME", flags->command_limit, "most time for it (default: 5m)");
  flags->judge.policy.add_to(*command, false);
  command->footer(kHowItWatches);
  const auto tally = std::make_shared<SurvivingValue<WatchTally>>();
  command->callback([flags, tally, &action] {
    require_own_inputs(*flags);
    const auto run = std::make_shared<FollowedTrace>(flags->judge.pair.candidate);
    action = [flags, tally, run] { return watch_trace(*flags, *run, *tally); };
  });
}

}  // namespace ttrace::app
