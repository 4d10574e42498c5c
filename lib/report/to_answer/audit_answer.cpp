#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "localize/phase.h"
#include "report/audit_screen.h"
#include "report/audit_text.h"
#include "report/finding_groups.h"
#include "report/to_answer/parts.h"
#include "report/to_answer/to_answer.h"

namespace ttrace::report {
namespace {

using answer::Answer;
using answer::AnsweredFinding;
using answer::AnsweredTensor;
using audit::AuditCheck;
using audit::AuditedTensor;

// Error over bound of the check that used most of it; nothing where no check has numbers.
std::optional<double> used_share(const AuditedTensor& tensor) {
  std::optional<double> used;
  for (const AuditCheck& check : tensor.checks) {
    if (check.result == audit::CheckResult::kNotReplayable) continue;
    used = std::max(used.value_or(0), check.share());
  }
  return used;
}

AnsweredTensor audited(const AuditedTensor& tensor) {
  AnsweredTensor out = tensor_of_key(tensor.key);
  out.outcome = audit_outcome_name(tensor.outcome);
  out.shape = tensor.shape;
  out.dtype = tensor::dtype_name(tensor.dtype);
  out.used = used_share(tensor);
  out.downstream = tensor.downstream;
  out.reason = tensor.reason;
  out.checks = checks_of(tensor);
  return out;
}

AnsweredFinding audit_finding(const audit::AuditFinding& finding,
                              const audit::AuditReport& report) {
  const AuditedTensor& shown = report.tensors[finding.shown];
  AnsweredFinding out;
  out.id = id_of(shown.key);
  out.title = finding.title;
  out.headline = audit_headline(report, finding);
  out.outcome = "broken";
  out.members.emplace();
  for (const std::size_t member : finding.members) {
    out.members->push_back(id_of(report.tensors[member].key));
  }
  out.module = shown.key.name;
  out.place = place_told(localize::place_of(shown.key, true, finding.axis()));
  out.source = {finding.class_name, finding.called_at};
  out.phase = localize::phase_name(localize::phase_of(shown.key));
  out.ranks = finding.ranks;
  out.checks = checks_of(shown);
  out.causes = told_causes(finding.causes);
  out.rejected = finding.rejected;
  return out;
}

// Those whose results the answer has.
std::vector<const AuditedTensor*> told_tensors(const audit::AuditReport& report, Detail detail) {
  std::set<std::size_t> found;
  for (const audit::AuditFinding& finding : report.findings) {
    found.insert(finding.members.begin(), finding.members.end());
  }
  if (report.sharpness.worst) found.insert(*report.sharpness.worst);
  std::vector<const AuditedTensor*> tensors;
  for (std::size_t i = 0; i < report.tensors.size(); ++i) {
    if (detail == Detail::kAll || found.contains(i)) tensors.push_back(&report.tensors[i]);
  }
  return tensors;
}

Answer::Coverage coverage_of_audit(const audit::AuditReport& report) {
  const audit::AuditCoverage& coverage = report.coverage;
  Answer::Coverage out;
  out.tensors = coverage.tensors;
  out.judged = coverage.judged;
  out.not_judged.emplace(coverage.not_judged.begin(), coverage.not_judged.end());
  out.below_bound = coverage.below_bound;
  out.zero_within_rounding = coverage.zero_within_rounding;
  out.not_finite = coverage.endless;
  out.narrow_factors = coverage.narrow_factors;
  out.wide_bound = coverage.wide;
  if (const auto& step = coverage.step) {
    for (const auto& [kind, tensors] : step->lacking) {
      out.lacking.emplace(kind_name(kind), tensors);
    }
    out.gradients = {step->parameters,
                     step->parameters - step->unjudged_gradients.size(),
                     step->unjudged_gradients,
                     {}};
    if (step->coarser) out.coarser = dtype_name(*step->coarser);
  }
  if (const auto& updates = coverage.updates) {
    out.updates = {updates->parameters, updates->parameters - updates->unjudged.size(),
                   updates->unjudged, updates->unmoved};
  }
  out.selected_of = report.selected_of;
  out.overflowed = coverage.overflowed;
  out.record_next = coverage.record_next;
  return out;
}

}  // namespace

Answer to_answer(const audit::AuditReport& report, Detail detail) {
  Answer out;
  out.command = "audit";
  out.verdict = audit::kAuditWords.of(report.verdict);
  out.headline = audit_answer(report).sentence;
  out.why = report.why;
  out.besides = report.besides;
  out.exit_code = static_cast<std::uint64_t>(exit_code(report.verdict));
  out.run = run_of(report.run);
  out.identity = {{}, {}, identity_of(report.run)};
  out.selection = selected_of(report.selection, std::nullopt);
  out.specification = report.specification;
  out.coverage = coverage_of_audit(report);
  const audit::AuditSharpness& sharpness = report.sharpness;
  out.sharpness = {sharpness.worst_share, {}, sharpness.gradient};
  if (sharpness.worst) out.sharpness->worst = id_of(report.tensors[*sharpness.worst].key);
  for (const audit::GivenSetting& setting : report.given_settings) {
    out.given_settings.push_back({setting.name, setting.values, setting.parameters});
  }
  for (const audit::AuditFinding& finding : report.findings) {
    out.findings.push_back(audit_finding(finding, report));
  }
  if (detail == Detail::kFindings) out.detail = "findings";
  out.results.emplace();
  for (const AuditedTensor* tensor : told_tensors(report, detail)) {
    out.results->push_back(audited(*tensor));
  }
  out.warnings = report.warnings;
  out.environment = environment_of(report.environment);
  out.environment.traces = {{}, {}, files_of(report.run)};
  if (report.part) out.part = told_part(*report.part);
  return out;
}

}  // namespace ttrace::report
