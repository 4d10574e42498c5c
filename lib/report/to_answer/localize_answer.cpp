#include <utility>
#include <vector>

#include "report/finding_groups.h"
#include "report/localize_text.h"
#include "report/to_answer/parts.h"
#include "report/to_answer/to_answer.h"

namespace ttrace::report {
namespace {

using answer::Answer;
using answer::AnsweredFinding;
using answer::AnsweredTensor;
using answer::AuditedTensor;

std::vector<AnsweredTensor::Check> checks_of_all(const std::vector<AuditedTensor>& local) {
  std::vector<AnsweredTensor::Check> checks;
  for (const AuditedTensor& tensor : local) {
    for (AnsweredTensor::Check& check : checks_of(tensor)) {
      check.id = id_of(tensor.key);
      checks.push_back(std::move(check));
    }
    if (tensor.outcome != answer::AuditOutcome::kNotJudged) continue;
    AnsweredTensor::Check none;
    none.id = id_of(tensor.key);
    none.operation = "expression";
    none.result = "not_replayable";
    none.reason = tensor.reason;
    checks.push_back(std::move(none));
  }
  return checks;
}

AnsweredFinding localized_finding(const localize::LocalizedFinding& finding) {
  AnsweredFinding out;
  out.id = finding.id;
  out.phase = "optimizer";
  if (finding.shown) {
    out.place = place_told(finding.place);
    out.phase = phase_name(localize::phase_of(*finding.shown));
  }
  out.title = finding.title;
  out.headline = finding.headline;
  out.members = finding.members;
  out.outcome = finding.outcome;
  out.module = finding.module;
  out.source = {finding.class_name, finding.called_at};
  out.ranks = finding.ranks;
  out.where = finding.where;
  out.here = finding.here;
  out.local = finding.summary;
  out.checks = checks_of_all(finding.local);
  out.causes = told_causes(finding.causes);
  out.rejected = finding.rejected;
  out.upstream = finding.upstream;
  out.downstream_total = finding.downstream;
  out.next = finding.next;
  return out;
}

Answer::Isolated isolated_of(const localize::IsolatedModule& isolated) {
  Answer::Isolated out;
  out.module = isolated.module;
  out.source = {isolated.class_name, isolated.called_at};
  out.verdict = localize::kIsolationWords.of(isolated.verdict);
  if (isolated.verdict == answer::Verdict::kWrong) out.phase = phase_name(isolated.phase);
  for (const trace::TensorKey& key : isolated.wrong) out.wrong.push_back(id_of(key));
  out.reason = isolated.reason;
  return out;
}

Answer::CodeDifference code_of(const specification::CodeDifference& difference) {
  Answer::CodeDifference out{difference.what, {difference.module_class, difference.called_at}, {}};
  for (const trace::TensorKey& key : difference.tensors) {
    out.tensors.push_back({std::string(kind_name(key.kind)), key.name, key.call, key.copy});
  }
  return out;
}

}  // namespace

Answer to_answer(const localize::LocalizeReport& report) {
  const localize::ReportedComparison& compared = report.comparison;
  Answer out;
  out.command = "localize";
  out.verdict = localize::kLocalizeWords.of(report.verdict());
  out.headline = localize_answer(report).sentence;
  out.exit_code = static_cast<std::uint64_t>(exit_code(report.verdict()));
  out.comparison = {compared.verdict, compared.why, {}};
  for (const auto& [kind, count] : compared.kinds) {
    out.comparison->kinds.push_back({kind, count.tensors, count.checked});
  }
  out.besides = compared.besides;
  out.reference = run_of(compared.reference);
  out.candidate = run_of(compared.candidate);
  out.identity = {identity_of(compared.reference), identity_of(compared.candidate), {}};
  out.tolerance = compared.tolerance;
  out.layout_rules = compared.layout_rules;
  out.map_rules = compared.map_rules;
  out.selection = selected_of(compared.selection, compared.common);
  out.specification = report.specification;
  if (report.code) {
    out.candidate_specification = report.candidate_specification;
    out.expressions_compared = report.code->compared;
    out.code.emplace();
    for (const specification::CodeDifference& one : report.code->differences) {
      out.code->push_back(code_of(one));
    }
  }
  for (const localize::LocalizedFinding& finding : report.findings) {
    out.findings.push_back(localized_finding(finding));
  }
  out.consequences = report.consequences;
  out.suspects.emplace();
  for (const localize::LocalizedSuspect& suspect : report.suspects) {
    Answer::Suspect one{
        id_of(suspect.key), suspect.used,   suspect.used_before, {}, trace::module_of(suspect.key),
        suspect.here,       suspect.summary};
    if (suspect.largest) one.largest_before = id_of(*suspect.largest);
    out.suspects->push_back(std::move(one));
  }
  out.layers.emplace();
  for (const localize::LayerSummary& layer : report.layers) {
    out.layers->push_back({layer.module, layer.class_name, layer.judged, layer.not_judged,
                           layer.worst_share, checks_of_all(layer.broken)});
  }
  if (!report.plan_digest.empty()) {
    out.plan = report.plan_digest;
    out.isolated.emplace();
    for (const localize::IsolatedModule& one : report.isolated) {
      out.isolated->push_back(isolated_of(one));
    }
  }
  if (report.written_plan) {
    out.written_plan = {report.written_plan->file, report.written_plan->plan.modules.size()};
  }
  out.not_replayable.emplace(report.not_replayable.begin(), report.not_replayable.end());
  out.warnings = report.warnings;
  out.environment = environment_of(report.environment);
  out.environment.bytes_read.reset();
  out.environment.traces = {files_of(compared.reference), files_of(compared.candidate), {}};
  if (report.part) out.part = told_part(*report.part);
  return out;
}

}  // namespace ttrace::report
