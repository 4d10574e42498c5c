#include "auditing.h"

#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "judge/calibration.h"
#include "machine.h"
#include "report/audit_report.h"

namespace ttrace::app {
namespace {

// The rules of a tolerance file; those whose last day is over skip nothing.
judge::Policy rules_that_skip(const std::string& file) {
  judge::Policy rules = judge::parse_calibration(base::read_text(file), file).rules;
  for (judge::PolicyRule& rule : rules) {
    if (!judge::skips(rule, today())) rule.skip.clear();
  }
  return rules;
}

}  // namespace

AuditedRunFlags audit_flags_of(const comparison::ComparisonId& id) {
  AuditedRunFlags flags;
  flags.run = id.candidate;
  flags.specification = id.specification;
  flags.layout = id.layout;
  flags.tolerance = id.tolerance;
  flags.exact = id.exact;
  flags.local.given = id.local_files;
  flags.selection = {id.only, id.skip, id.kinds, id.steps};
  return flags;
}

SharedAudit::SharedAudit(const AuditedRunFlags& flags, std::unique_ptr<trace::Source> run)
    : flags_(flags),
      trace_(run ? std::move(run) : open_local(flags.run, flags.local), flags.layout) {
  options_.selection = flags.selection.selection();
  if (!flags.tolerance.empty()) {
    options_.selection.rules = rules_that_skip(flags.tolerance);
    options_.rules_file = flags.tolerance;
  }
  options_.execution = execution_context(flags.threads);
  options_.exact = flags.exact;
  if (flags.specification.empty()) return;
  specification_ = read_specification(flags.specification);
  options_.specification = &*specification_;
  options_.specification_file = flags.specification;
}

comparison::ComparisonId SharedAudit::id() const {
  comparison::ComparisonId id;
  id.candidate = flags_.run;
  id.tolerance = flags_.tolerance;
  id.layout = flags_.layout;
  id.only = flags_.selection.only;
  id.skip = flags_.selection.skip;
  id.kinds = flags_.selection.kinds;
  id.steps = flags_.selection.steps;
  id.specification = flags_.specification;
  id.exact = flags_.exact;
  id.facts.emplace_back("the version of ttrace", version());
  id.local_files = flags_.local.given;
  id.local_files ? add_manifest(*trace_, id) : add_trace(*trace_, id);
  for (const std::string& file : {flags_.tolerance, flags_.layout, flags_.specification}) {
    add_text(file, id);
  }
  std::string in_force;
  for (std::size_t i = 0; i < options_.selection.rules.size(); ++i) {
    if (options_.selection.rules[i].skip.empty()) continue;
    in_force += base::concat(in_force.empty() ? "" : ", ", i);
  }
  if (!flags_.tolerance.empty()) {
    id.facts.emplace_back("the list of its rules that skip today", in_force);
  }
  return id;
}

std::map<std::string, std::string> SharedAudit::files_here() const {
  std::map<std::string, std::string> files;
  add_files_here(*trace_, files);
  return files;
}

void SharedAudit::run(comparison::Checkpoint* work, comparison::WorkDivision division,
                      const std::atomic<bool>* stop) {
  options_.work = work;
  options_.division = std::move(division);
  options_.stop = stop;
  report_ = engine::audit_trace(*trace_, options_);
  report_.environment.version = version();
}

GivenAnswer SharedAudit::answer() const {
  return {[this](report::Detail detail) { return report::to_answer(report_, detail); }, nullptr,
          [this](const report::TextStyle& style, std::ostream& out) {
            report::write_audit(report_, style, out);
          },
          report_.warnings, answer::exit_code(report_.verdict)};
}

}  // namespace ttrace::app
