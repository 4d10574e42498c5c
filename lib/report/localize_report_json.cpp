#include <nlohmann/json.hpp>

#include "report/finding_groups.h"
#include "report/json/report_text_json.h"
#include "report/json/result_json.h"
#include "report/json/run_json.h"
#include "report/localize_report.h"
#include "report/localize_text.h"

namespace ttrace::report {
namespace {

using answer::AuditedTensor;

json local_checks_json(const std::vector<AuditedTensor>& local) {
  json checks = json::array();
  for (const AuditedTensor& tensor : local) {
    const std::string id = id_of(tensor.key);
    for (const answer::AuditCheck& check : tensor.checks) {
      json item{{"id", id},
                {"operation", check.operation},
                {"result", check_result_name(check.result)},
                {"error", number(check.error)},
                {"bound", number(check.bound)},
                {"reason", check.reason}};
      if (!check.expected.empty()) item["expected"] = check.expected;
      if (!check.rows.empty()) item["rows"] = check.rows;
      if (!check.ranks.empty()) item["ranks"] = check.ranks;
      checks.push_back(std::move(item));
    }
    if (tensor.outcome == answer::AuditOutcome::kNotJudged) {
      checks.push_back({{"id", id},
                        {"operation", "expression"},
                        {"result", "not_replayable"},
                        {"error", nullptr},
                        {"bound", nullptr},
                        {"reason", tensor.reason}});
    }
  }
  return checks;
}

json localized_finding_json(const localize::LocalizedFinding& finding) {
  json place = nullptr;
  std::string_view phase = "optimizer";
  if (finding.shown) {
    place = code_place_json(finding.place);
    phase = phase_name(localize::phase_of(*finding.shown));
  }
  return {{"id", finding.id},
          {"place", std::move(place)},
          {"title", finding.title},
          {"headline", finding.headline},
          {"keys", finding.members},
          {"outcome", finding.outcome},
          {"module", finding.module},
          {"class", finding.class_name},
          {"called_at", finding.called_at},
          {"phase", phase},
          {"ranks", finding.ranks},
          {"where", finding.where},
          {"here", finding.here},
          {"local", {{"summary", finding.summary}, {"checks", local_checks_json(finding.local)}}},
          {"causes", causes_json(finding.causes)},
          {"rejected", rejected_json(finding.rejected)},
          {"upstream", finding.upstream},
          {"downstream", finding.downstream},
          {"next", finding.next}};
}

json layer_json(const localize::LayerSummary& layer) {
  return {{"module", layer.module},
          {"class", layer.class_name},
          {"judged", layer.judged},
          {"not_judged", layer.not_judged},
          {"worst_share", number(layer.worst_share)},
          {"broken", local_checks_json(layer.broken)}};
}

json isolated_json(const localize::IsolatedModule& isolated) {
  json wrong = json::array();
  for (const trace::TensorKey& key : isolated.wrong) wrong.push_back(id_of(key));
  const bool at_fault = isolated.verdict == answer::Verdict::kWrong;
  json out{{"module", isolated.module},
           {"class", isolated.class_name},
           {"called_at", isolated.called_at},
           {"verdict", localize::kIsolationWords.of(isolated.verdict)},
           {"phase", at_fault ? json(phase_name(isolated.phase)) : json(nullptr)},
           {"wrong", std::move(wrong)}};
  if (!isolated.reason.empty()) out["reason"] = isolated.reason;
  return out;
}

json code_json(const specification::CodeDifference& difference) {
  json tensors = json::array();
  for (const trace::TensorKey& key : difference.tensors) {
    tensors.push_back({{"kind", kind_name(key.kind)},
                       {"name", key.name},
                       {"call", key.call},
                       {"copy", key.copy}});
  }
  return {{"what", difference.what},
          {"class", difference.module_class},
          {"called_at", difference.called_at},
          {"tensors", std::move(tensors)}};
}

}  // namespace

std::string localize_json(const localize::LocalizeReport& report) {
  ReportText text(kLocalizeSchema);
  text.add("headline", localize_answer(report).sentence);
  text.add("verdict", localize::kLocalizeWords.of(report.verdict()));
  text.add("exit_code", exit_code(report.verdict()));
  json kinds = json::array();
  for (const auto& [kind, count] : report.comparison.kinds) {
    kinds.push_back({{"kind", kind}, {"tensors", count.tensors}, {"checked", count.checked}});
  }
  text.add("comparison", {{"verdict", report.comparison.verdict},
                          {"why", report.comparison.why},
                          {"kinds", std::move(kinds)}});
  if (const std::string& besides = report.comparison.besides; !besides.empty()) {
    text.add("besides", besides);
  }
  text.add("reference", trace_json(report.comparison.reference));
  text.add("candidate", trace_json(report.comparison.candidate));
  text.add("identity", {{"reference", identity_json(report.comparison.reference)},
                        {"candidate", identity_json(report.comparison.candidate)}});
  for (const auto& [member, value] : report.comparison.judged_by) {
    text.add(member, json::parse(value));
  }
  json selection = selection_json(report.comparison.selection);
  selection["common"] = report.comparison.common;
  text.add("selection", selection);
  text.add("specification",
           report.specification.empty() ? json(nullptr) : json(report.specification));
  if (report.code) {
    text.add("candidate_specification", report.candidate_specification);
    text.add("expressions_compared", report.code->compared);
    text.add_lines("code", report.code->differences, code_json);
  }
  text.add_lines("findings", report.findings, [](const localize::LocalizedFinding& finding) {
    return nine_digits(localized_finding_json(finding));
  });
  if (!report.consequences.empty()) text.add("consequences", report.consequences);
  text.add_lines("suspects", report.suspects, [](const localize::LocalizedSuspect& suspect) {
    return nine_digits(json{{"id", id_of(suspect.key)},
                            {"module", trace::module_of(suspect.key)},
                            {"used", number(suspect.used)},
                            {"used_before", number(suspect.used_before)},
                            {"here", suspect.here},
                            {"local", suspect.summary}});
  });
  text.add_lines("layers", report.layers, [](const localize::LayerSummary& layer) {
    return nine_digits(layer_json(layer));
  });
  if (!report.plan_digest.empty()) {
    text.add("plan", report.plan_digest);
    text.add_lines("isolated", report.isolated, isolated_json);
  }
  if (report.written_plan) {
    text.add("written_plan", {{"file", report.written_plan->file},
                              {"modules", report.written_plan->plan.modules.size()}});
  }
  text.add("not_replayable", report.not_replayable);
  text.add_lines("warnings", report.warnings,
                 [](const std::string& warning) { return json(warning); });
  json environment = environment_json(report.environment);
  environment.erase("bytes_read");
  environment["traces"] = {{"reference", place_json(report.comparison.reference)},
                           {"candidate", place_json(report.comparison.candidate)}};
  text.add("environment", environment);
  if (report.part) text.add_share(*report.part);
  return std::move(text).done();
}

}  // namespace ttrace::report
