#include <cmath>
#include <nlohmann/json.hpp>

#include "judge/calibration.h"

namespace ttrace::judge {
namespace {

using json = nlohmann::ordered_json;

json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : "inf";
}

json numbers(const std::vector<double>& values) {
  json out = json::array();
  for (const double value : values) out.push_back(number(value));
  return out;
}

json rule_json(const PolicyRule& rule) {
  json out{{"name", rule.names}};
  if (!rule.kinds.empty()) {
    json kinds = json::array();
    for (const trace::Kind kind : rule.kinds) kinds.push_back(kind_name(kind));
    out["kind"] = std::move(kinds);
  }
  if (rule.multiplier) out["multiplier"] = *rule.multiplier;
  if (rule.floor) out["floor"] = *rule.floor;
  if (rule.absolute) out["absolute"] = *rule.absolute;
  if (rule.exact) out["exact"] = true;
  if (!rule.skip.empty()) out["skip"] = rule.skip;
  if (!rule.until.empty()) out["until"] = rule.until;
  return out;
}

json tensor_json(const trace::TensorKey& key, const CalibratedTensor& tensor) {
  json out{{"name", key.name}, {"kind", kind_name(key.kind)}, {"step", key.step}};
  if (key.microbatch) out["microbatch"] = *key.microbatch;
  if (key.call != 0) out["call"] = key.call;
  if (key.copy != 0) out["copy"] = key.copy;
  out["dtype"] = dtype_name(tensor.dtype);
  out["shape"] = tensor.shape;
  out["norm"] = number(tensor.noise.reference_norm);
  out["noise"] = numbers(tensor.noise.norms);
  out["largest"] = numbers(tensor.noise.largest);
  if (!tensor.noise.coherence.empty()) out["coherence"] = numbers(tensor.noise.coherence);
  if (!tensor.noise.cells.empty()) {
    out["parts"] = tensor.noise.grid.parts();
    out["cells"] = numbers(tensor.noise.cells);
  }
  return out;
}

std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

void add_lines(const std::vector<json>& items, std::string& text) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += (i == 0 ? "\n    " : ",\n    ") + dumped(items[i]);
  }
  text += items.empty() ? "]" : "\n  ]";
}

}  // namespace

std::string calibration_text(const Calibration& calibration) {
  std::vector<json> rules;
  for (const PolicyRule& rule : calibration.rules) rules.push_back(rule_json(rule));
  std::vector<json> tensors;
  for (const auto& [key, tensor] : calibration.tensors) tensors.push_back(tensor_json(key, tensor));
  std::string text = "{\n  \"schema\": " + dumped(kToleranceSchema);
  text += ",\n  \"reference\": " + dumped(calibration.reference);
  text += ",\n  \"noise_runs\": " + dumped(calibration.runs);
  text += ",\n  \"rules\": [";
  add_lines(rules, text);
  text += ",\n  \"tensors\": [";
  add_lines(tensors, text);
  return text + "\n}\n";
}

}  // namespace ttrace::judge
