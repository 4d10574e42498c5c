#include "report/json/selftest_report_json.h"

#include <nlohmann/json.hpp>

#include "report/json/report_text_json.h"

namespace ttrace::report {
namespace {

json key_json(const trace::TensorKey& key) {
  json out{{"step", key.step}, {"microbatch", nullptr}};
  if (key.microbatch) out["microbatch"] = *key.microbatch;
  out["kind"] = kind_name(key.kind);
  out["name"] = key.name;
  out["call"] = key.call;
  out["copy"] = key.copy;
  return out;
}

json size_json(const std::optional<double>& size) {
  if (!size) return nullptr;
  return *size;
}

json summary_json(const comparison::FaultSummary& summary, comparison::FaultKind fault,
                  const comparison::SelftestReport& report) {
  json out{{"tried", summary.tried}, {"caught", summary.caught}, {"unchanged", summary.unchanged}};
  if (comparison::has_sizes(fault)) {
    out["half"] = size_json(summary.half);
    out["nine_of_ten"] = size_json(summary.nine_of_ten);
    out["all"] = size_json(summary.all);
  }
  if (summary.weakest) out["weakest"] = key_json(report.tensors[*summary.weakest].key);
  return out;
}

json group_json(const comparison::SelftestGroup& group, const comparison::SelftestReport& report) {
  json faults = json::object();
  for (const comparison::FaultKind fault : comparison::kAllFaults) {
    faults[comparison::fault_name(fault)] = summary_json(group.of(fault), fault, report);
  }
  return {{"kind", kind_name(group.kind)},
          {"dtype", tensor::dtype_name(group.dtype)},
          {"tensors", group.tensors},
          {"check_nothing", group.blind},
          {"faults", std::move(faults)}};
}

json tensor_json(const comparison::SelftestTensor& tensor) {
  json out = key_json(tensor.key);
  out["dtype"] = tensor::dtype_name(tensor.dtype);
  out["shape"] = tensor.shape;
  out["checks_nothing"] = comparison::checks_nothing(tensor);
  if (!tensor.unjudged.empty()) {
    out["unjudged"] = tensor.unjudged;
    return out;
  }
  out["rule"] = tensor.rule;
  json faults = json::object();
  for (const comparison::FaultKind fault : comparison::kAllFaults) {
    const comparison::Trial& trial = tensor.trial(fault);
    json one{{"state", comparison::state_name(trial.state)}};
    if (trial.state == comparison::TrialState::kCaught && comparison::has_sizes(fault))
      one["size"] = trial.size;
    if (!trial.what.empty()) {
      one[trial.state == comparison::TrialState::kImpossible ? "why" : "what"] = trial.what;
    }
    faults[comparison::fault_name(fault)] = std::move(one);
  }
  out["faults"] = std::move(faults);
  return out;
}

}  // namespace

std::string selftest_json(const comparison::SelftestReport& report) {
  const bool table = report.why.empty();
  const std::vector<comparison::SelftestGroup> groups =
      table ? comparison::groups_of(report.tensors) : std::vector<comparison::SelftestGroup>{};
  json tolerance{{"noise_runs", report.noise_runs}};
  if (!report.tolerance_file.empty()) tolerance["file"] = report.tolerance_file;
  ReportText text(kSelftestSchema);
  text.add("pair", comparison::kCompareWords.of(report.pair));
  if (!table) text.add("why", report.why);
  text.add("exit_code", comparison::exit_code(report));
  text.add("reference", report.reference.path);
  text.add("candidate", report.candidate.path);
  text.add("tolerance", tolerance);
  text.add("ladder", report.ladder);
  text.add_lines("groups", groups, [&report](const comparison::SelftestGroup& group) {
    return group_json(group, report);
  });
  text.add_lines("tensors", report.tensors, tensor_json);
  text.add_lines("warnings", report.warnings, [](const std::string& w) { return json(w); });
  text.add("environment", {{"threads", report.environment.threads},
                           {"seconds", report.environment.seconds},
                           {"version", report.environment.version}});
  return std::move(text).done();
}

}  // namespace ttrace::report
