#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "localize/phase.h"
#include "report/audit_report.h"
#include "report/audit_screen.h"
#include "report/audit_text.h"
#include "report/finding_groups.h"
#include "report/json/report_text_json.h"
#include "report/json/result_json.h"
#include "report/json/run_json.h"

namespace ttrace::report {
namespace {

using audit::AuditCheck;
using audit::AuditedTensor;

json check_json(const AuditCheck& check) {
  json out{{"operation", check.operation},
           {"result", check_result_name(check.result)},
           {"error", number(check.error)},
           {"bound", number(check.bound)}};
  if (!check.expected.empty()) out["expected"] = check.expected;
  if (!check.reason.empty()) out["reason"] = check.reason;
  if (check.by_probes) out["by_probes"] = true;
  if (!check.rows.empty()) out["rows"] = check.rows;
  if (!check.ranks.empty()) out["ranks"] = check.ranks;
  return out;
}

json audit_checks_json(const AuditedTensor& tensor) {
  json checks = json::array();
  for (const AuditCheck& check : tensor.checks) checks.push_back(check_json(check));
  return checks;
}

// Error over bound of the check that used most of it; nothing where no check has numbers.
std::optional<double> used_share(const AuditedTensor& tensor) {
  std::optional<double> used;
  for (const AuditCheck& check : tensor.checks) {
    if (check.result == audit::CheckResult::kNotReplayable) continue;
    used = std::max(used.value_or(0), check.share());
  }
  return used;
}

json audited_json(const AuditedTensor& tensor) {
  json out{{"id", id_of(tensor.key)},
           {"key", key_json(tensor.key)},
           {"outcome", audit_outcome_name(tensor.outcome)},
           {"shape", tensor.shape},
           {"dtype", tensor::dtype_name(tensor.dtype)}};
  add_position(tensor.key, out);
  if (const auto used = used_share(tensor)) out["used"] = number(*used);
  if (tensor.downstream) out["downstream"] = true;
  if (!tensor.reason.empty()) out["reason"] = tensor.reason;
  if (!tensor.checks.empty()) out["checks"] = audit_checks_json(tensor);
  return out;
}

json audit_finding_json(const audit::AuditFinding& finding, const audit::AuditReport& report) {
  const AuditedTensor& shown = report.tensors[finding.shown];
  json keys = json::array();
  for (const std::size_t member : finding.members) {
    keys.push_back(id_of(report.tensors[member].key));
  }
  return {{"id", id_of(shown.key)},
          {"title", finding.title},
          {"headline", audit_headline(report, finding)},
          {"keys", std::move(keys)},
          {"module", shown.key.name},
          {"place", code_place_json(localize::place_of(shown.key, true, finding.axis()))},
          {"class", finding.class_name},
          {"called_at", finding.called_at},
          {"phase", localize::phase_name(localize::phase_of(shown.key))},
          {"ranks", finding.ranks},
          {"local", {{"checks", audit_checks_json(shown)}}},
          {"causes", causes_json(finding.causes)},
          {"rejected", rejected_json(finding.rejected)}};
}

// Those whose results the report has.
std::vector<const AuditedTensor*> reported_tensors(const audit::AuditReport& report,
                                                   Detail detail) {
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

void add_step(const audit::StepCoverage& step, json& coverage) {
  json lacking = json::object();
  for (const auto& [kind, tensors] : step.lacking) {
    lacking[std::string(kind_name(kind))] = tensors;
  }
  if (!lacking.empty()) coverage["lacking"] = std::move(lacking);
  coverage["gradients"] = {{"parameters", step.parameters},
                           {"judged", step.parameters - step.unjudged_gradients.size()},
                           {"not_judged", step.unjudged_gradients}};
  if (step.coarser) coverage["coarser"] = dtype_name(*step.coarser);
}

}  // namespace

std::string audit_json(const audit::AuditReport& report, Detail detail) {
  ReportText text(kAuditSchema);
  text.add("headline", audit_answer(report).sentence);
  text.add("verdict", audit::kAuditWords.of(report.verdict));
  if (!report.why.empty()) text.add("why", report.why);
  if (!report.besides.empty()) text.add("besides", report.besides);
  text.add("exit_code", exit_code(report.verdict));
  text.add("run", trace_json(report.run));
  text.add("identity", {{"run", identity_json(report.run)}});
  text.add("selection", selection_json(report.selection));
  text.add("specification",
           report.specification.empty() ? json(nullptr) : json(report.specification));
  json coverage{{"judged", report.coverage.judged},
                {"tensors", report.coverage.tensors},
                {"not_judged", report.coverage.not_judged}};
  if (report.coverage.below_bound > 0) coverage["below_bound"] = report.coverage.below_bound;
  if (report.coverage.zero_within_rounding > 0) {
    coverage["zero_within_rounding"] = report.coverage.zero_within_rounding;
  }
  if (report.coverage.endless > 0) coverage["not_finite"] = report.coverage.endless;
  if (report.coverage.narrow_factors > 0) {
    coverage["narrow_factors"] = report.coverage.narrow_factors;
  }
  if (report.coverage.wide > 0) coverage["wide_bound"] = report.coverage.wide;
  if (report.coverage.step) add_step(*report.coverage.step, coverage);
  if (const auto& updates = report.coverage.updates) {
    coverage["updates"] = {{"parameters", updates->parameters},
                           {"judged", updates->parameters - updates->unjudged.size()},
                           {"not_judged", updates->unjudged},
                           {"unmoved", updates->unmoved}};
  }
  if (report.selected_of) coverage["selected_of"] = *report.selected_of;
  if (report.coverage.overflowed > 0) coverage["overflowed"] = report.coverage.overflowed;
  if (!report.coverage.record_next.empty()) coverage["record_next"] = report.coverage.record_next;
  text.add("coverage", coverage);
  const audit::AuditSharpness& sharpness = report.sharpness;
  text.add("sharpness",
           {{"worst_share", number(sharpness.worst_share)},
            {"worst",
             sharpness.worst ? json(id_of(report.tensors[*sharpness.worst].key)) : json(nullptr)},
            {"gradient", sharpness.gradient ? number(*sharpness.gradient) : json(nullptr)}});
  if (!report.given_settings.empty()) {
    text.add_lines("given_settings", report.given_settings, [](const audit::GivenSetting& setting) {
      json values = json::array();
      for (const double value : setting.values) values.push_back(number(value));
      return json{{"name", setting.name},
                  {"values", std::move(values)},
                  {"parameters", setting.parameters}};
    });
  }
  text.add_lines("findings", report.findings, [&report](const audit::AuditFinding& finding) {
    return nine_digits(audit_finding_json(finding, report));
  });
  if (detail == Detail::kFindings) text.add("detail", "findings");
  text.add_lines("results", reported_tensors(report, detail),
                 [](const AuditedTensor* tensor) { return nine_digits(audited_json(*tensor)); });
  text.add_lines("warnings", report.warnings,
                 [](const std::string& warning) { return json(warning); });
  json environment = environment_json(report.environment);
  environment["traces"] = {{"run", place_json(report.run)}};
  text.add("environment", environment);
  if (report.part) text.add_share(*report.part);
  return std::move(text).done();
}

}  // namespace ttrace::report
