#include <memory>
#include <utility>

#include "answer_output.h"
#include "base/error.h"
#include "command.h"
#include "flags/flag_group.h"
#include "flags/policy.h"
#include "inputs.h"
#include "localization.h"
#include "outputs.h"
#include "report/json/plan_json.h"
#include "shared_work.h"

namespace ttrace::app {
namespace {

struct LocalizeCommandFlags : LocalizeFlags {
  SharedWorkFlags work;
  AnswerFlags answer;
  PolicyFlags policy;
};

// A report says what was compared, and how: these flags would have no effect.
void require_no_comparison_flags(const LocalizeFlags& flags) {
  if (flags.report.empty()) return;
  const JudgedPairFlags& pair = flags.comparison.pair;
  const SelectionFlags& selection = pair.selection;
  const std::pair<const char*, bool> given[] = {
      {"--noise", !pair.noise.empty()},     {"--tolerance", !pair.tolerance.empty()},
      {"--map", !pair.map.empty()},         {"--only", !selection.only.empty()},
      {"--skip", !selection.skip.empty()},  {"--kind", !selection.kinds.empty()},
      {"--step", !selection.steps.empty()},
  };
  for (const auto& [flag, is_given] : given) {
    if (!is_given) continue;
    throw base::usage_error(flag, " has no effect beside --report: the traces are not compared ",
                            "again; leave one of the two out");
  }
}

// A plan needs the whole answer, and is written beside it.
void require_whole_for_plan(const LocalizeCommandFlags& flags, bool is_rank) {
  if (flags.plan.empty() || (flags.work.part.empty() && !is_rank)) return;
  throw base::usage_error(
      "--plan is for one process; leave --part or mpirun out, or give the merged report with "
      "--report");
}

int run_localize(const LocalizeCommandFlags& flags) {
  if (!flags.candidate_specification.empty() && flags.specification.empty()) {
    throw base::usage_error("--candidate-specification needs --specification, to compare it with");
  }
  require_part_for(flags.comparison.pair.local, flags.work);
  if (is_stdout(flags.plan)) {
    throw base::usage_error("--plan: the answer goes to standard output, name a file");
  }
  require_no_comparison_flags(flags);
  const auto rank = rank_of(flags.work);
  require_whole_for_plan(flags, rank.has_value());
  if (rank) {
    return run_as_rank(*rank, flags.work, flags.answer, flags.policy,
                       [&] { return std::make_unique<SharedLocalization>(flags); });
  }
  require_whole_for(flags.policy, flags.work);
  const auto policy = flags.policy.read();
  AnswerOutput output(flags.answer);
  OutputFile plan(flags.plan);
  SharedLocalization localization(flags);
  run_share(localization, flags.work, !flags.answer.json().empty());
  if (const auto& written = localization.plan()) plan.store(report::plan_json(written->plan));
  return output.write(policed(localization.answer(), policy));
}

}  // namespace

void add_localize_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "localize", "explain what a comparison found: what does not follow from its inputs");
  const auto flags = std::make_shared<LocalizeCommandFlags>();
  flags->comparison.pair.add_to(*command, "the trace to explain");
  const FlagGroup traces(*command, kTraces);
  const FlagGroup what(*command, kWhat);
  add_specification_flag(*command, flags->specification);
  traces.value("--candidate-specification FILE", flags->candidate_specification,
               "the same of the candidate's code: what differs is a finding");
  what.value("--layer GLOB", flags->layers,
             "also judge the modules that match, whatever was found");
  what.flag("--all-layers", flags->all_layers, "also judge every module");
  traces.value("--report FILE", flags->report,
               "the JSON report of comparing these traces; nothing is compared again");
  FlagGroup(*command, kAnswer)
      .value("--plan FILE", flags->plan,
             "write a plan: a second pair of runs that isolates what differs");
  flags->work.add_to(*command, "localize", flags->comparison.pair.local);
  flags->answer.add_to(*command, "print every finding and every module");
  flags->policy.add_to(*command);
  command->footer(
      "Exit codes: 0 nothing to explain, 1 findings, 2 unusable, 3 inconclusive. Nights: --known, "
      "README.");
  command->callback([flags, &action] { action = [flags] { return run_localize(*flags); }; });
}

}  // namespace ttrace::app
