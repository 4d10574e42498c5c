#include "report/json/plan_json.h"

#include <nlohmann/json.hpp>

#include "localize/isolation_plan.h"
#include "report/json/report_text_json.h"

namespace ttrace::report {
namespace {

json values_json(const std::vector<localize::PlannedValues>& tensors) {
  json out = json::array();
  for (const localize::PlannedValues& values : tensors) {
    out.push_back({{"index", values.index}, {"mean", values.mean}, {"std", values.std}});
  }
  return out;
}

}  // namespace

std::string plan_json(const localize::RewritingPlan& plan) {
  std::string text =
      "{\"schema\": \"ttrace.plan/1\", \"seed\": " + std::to_string(plan.seed) + ", \"modules\": [";
  for (std::size_t i = 0; i < plan.modules.size(); ++i) {
    const localize::PlannedModule& module = plan.modules[i];
    json entry{{"name", module.name}};
    if (!module.inputs.empty()) entry["inputs"] = values_json(module.inputs);
    if (!module.grad_outputs.empty()) entry["grad_outputs"] = values_json(module.grad_outputs);
    text += (i > 0 ? ",\n  " : "\n  ") + dumped(entry);
  }
  return text + "\n]}\n";
}

}  // namespace ttrace::report
