#include <memory>
#include <optional>

#include "answer_output.h"
#include "base/error.h"
#include "base/files.h"
#include "command.h"
#include "engine/audit_trace.h"
#include "flags/execution.h"
#include "flags/flag_group.h"
#include "flags/policy.h"
#include "inputs.h"
#include "judge/calibration.h"
#include "machine.h"
#include "outputs.h"
#include "report/audit_report.h"
#include "report/terminal_text.h"
#include "specification/specification.h"

namespace ttrace::app {
namespace {

struct AuditFlags {
  std::string run;
  std::string specification;
  std::string layout;
  std::string tolerance;
  unsigned threads = 0;
  bool exact = false;
  SelectionFlags selection;
  AnswerFlags answer;
  PolicyFlags policy;
};

// The rules of a tolerance file; those whose last day is over skip nothing.
judge::Policy rules_that_skip(const std::string& file) {
  judge::Policy rules = judge::parse_calibration(base::read_text(file), file).rules;
  for (judge::PolicyRule& rule : rules) {
    if (!judge::skips(rule, today())) rule.skip.clear();
  }
  return rules;
}

int run_audit(const AuditFlags& flags) {
  for (const std::string& file : flags.answer.files) require_not_of_trace(file, flags.run);
  std::vector<NamedFile> others = flags.policy.files();
  others.emplace_back("--specification", flags.specification);
  others.emplace_back("--tolerance", flags.tolerance);
  others.emplace_back("--layout", flags.layout);
  require_own_files(flags.answer, others);
  const auto policy = flags.policy.read();
  AnswerOutput output(flags.answer);
  const OpenedTrace trace(flags.run, flags.layout);
  engine::AuditOptions options;
  options.selection = flags.selection.selection();
  if (!flags.tolerance.empty()) {
    options.selection.rules = rules_that_skip(flags.tolerance);
    options.rules_file = flags.tolerance;
  }
  options.execution = execution_context(flags.threads);
  options.exact = flags.exact;
  std::optional<specification::Specification> specification;
  if (!flags.specification.empty()) {
    specification = read_specification(flags.specification);
    options.specification = &*specification;
    options.specification_file = flags.specification;
  }
  audit::AuditReport report = engine::audit_trace(*trace, options);
  report.environment.version = version();

  const Answer answer{[&](report::Detail detail) { return report::audit_json(report, detail); },
                      [&](const report::TextStyle& style, std::ostream& out) {
                        report::write_audit(report, style, out);
                      },
                      report.warnings, audit::exit_code(report.verdict)};
  return output.write(policed(answer, policy));
}

constexpr const char* kHowToReadAudit =
    "Without a specification only replicas, finite values, gradient norms and optimizer steps are\n"
    "checked. `ttrace_torch.specify(...)` or TTRACE_SPECIFICATION=FILE in a one-process run of "
    "the\n"
    "same model and micro-batch makes one (schemas/specification-v1.md).\n"
    "\n"
    "For nights: --known, --require, --fail-on, --since.\n"
    "Exit codes: 0 everything that could be checked holds, 1 something does not, 2 usage or\n"
    "unreadable input, 3 too little could be checked.";

}  // namespace

void add_audit_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "audit", "check every tensor against what it was computed from; no reference");
  const auto flags = std::make_shared<AuditFlags>();
  command->add_option("RUN", flags->run, "the trace to check")->required();
  add_specification_flag(*command, flags->specification);
  FlagGroup(*command, kWhat)
      .flag("--exact", flags->exact,
            "multiply out every product, also where random probes find nothing");
  add_layout_flag(*command, flags->layout);
  FlagGroup(*command, kTraces)
      .value("--tolerance FILE", flags->tolerance,
             "a tolerance file, whose rules say which tensors to skip, and why");
  flags->selection.add_to(*command);
  add_threads_flag(*command, flags->threads);
  flags->answer.add_to(*command, "print every finding in full and every tensor");
  flags->policy.add_to(*command);
  command->footer(kHowToReadAudit);
  command->callback([flags, &action] { action = [flags] { return run_audit(*flags); }; });
}

}  // namespace ttrace::app
