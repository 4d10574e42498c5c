#include <memory>
#include <vector>

#include "answer_output.h"
#include "auditing.h"
#include "command.h"
#include "flags/execution.h"
#include "flags/flag_group.h"
#include "flags/policy.h"
#include "shared_work.h"

namespace ttrace::app {
namespace {

struct AuditFlags {
  AuditedRunFlags audit;
  SharedWorkFlags work;
  AnswerFlags answer;
  PolicyFlags policy;
};

int run_audit(const AuditFlags& flags) {
  require_part_for(flags.audit.local, flags.work);
  if (const auto rank = rank_of(flags.work)) {
    return run_as_rank(*rank, flags.work, flags.answer, flags.policy,
                       [&] { return std::make_unique<SharedAudit>(flags.audit); });
  }
  require_whole_for(flags.policy, flags.work);
  const auto policy = flags.policy.read();
  AnswerOutput output(flags.answer);
  SharedAudit audit(flags.audit);
  run_share(audit, flags.work, !flags.answer.json().empty());
  return output.write(policed(audit.answer(), policy));
}

constexpr const char* kHowToReadAudit =
    "Without a specification only replicas, finite values, gradient norms and optimizer steps are\n"
    "checked. `ttrace_torch.specify(...)` or TTRACE_SPECIFICATION=FILE in a one-process run of "
    "the\n"
    "same model and micro-batch makes one (schemas/specification-v1.md). For nights: --known,\n"
    "--require, --fail-on, --since.\n"
    "Exit codes: 0 everything that could be checked holds, 1 something does not, 2 usage or\n"
    "unreadable input, 3 too little could be checked.";

}  // namespace

void add_audit_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "audit", "check every tensor against what it was computed from; no reference");
  const auto flags = std::make_shared<AuditFlags>();
  command->add_option("RUN", flags->audit.run, "the trace to check")->required();
  add_specification_flag(*command, flags->audit.specification);
  FlagGroup(*command, kWhat)
      .flag("--exact", flags->audit.exact,
            "multiply out every product, also where random probes find nothing");
  add_layout_flag(*command, flags->audit.layout);
  FlagGroup(*command, kTraces)
      .value("--tolerance FILE", flags->audit.tolerance,
             "a tolerance file, whose rules say which tensors to skip, and why");
  flags->audit.selection.add_to(*command);
  add_threads_flag(*command, flags->audit.threads);
  flags->work.add_to(*command, "audit", flags->audit.local);
  flags->answer.add_to(*command, "print every finding in full and every tensor");
  flags->policy.add_to(*command);
  command->footer(kHowToReadAudit);
  command->callback([flags, &action] { action = [flags] { return run_audit(*flags); }; });
}

}  // namespace ttrace::app
