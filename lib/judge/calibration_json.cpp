#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/strict_json.h"
#include "base/text.h"
#include "judge/calibration.h"
#include "layout/map_rules.h"

namespace ttrace::judge {
namespace {

using base::JsonCursor;

// A number ≥ 0. "inf" and "nan" mean that a perturbed run was not finite, and give infinity.
double size_from(const JsonCursor& json) {
  if (json.is_string()) {
    const std::string text = json.as_string();
    if (text == "inf" || text == "nan") return std::numeric_limits<double>::infinity();
    throw json.error("expected a number, \"inf\" or \"nan\"");
  }
  const double value = json.as_number();
  if (!(value >= 0) || !std::isfinite(value)) throw json.error("expected a number from 0 on");
  return value;
}

std::vector<double> sizes_from(const JsonCursor& json) {
  std::vector<double> values;
  for (const JsonCursor& item : json.items()) values.push_back(size_from(item));
  return values;
}

tensor::Shape shape_from(const JsonCursor& json) {
  tensor::Shape shape;
  for (const JsonCursor& item : json.items()) shape.push_back(item.as_count());
  if (shape.size() > tensor::kMostDimensions || !tensor::element_count(shape)) {
    throw json.error(tensor::to_string(shape), " is not a valid shape");
  }
  return shape;
}

PolicyRule rule_from(const JsonCursor& json) {
  json.allow_keys({"name", "kind", "multiplier", "floor", "absolute", "exact", "skip", "until"});
  PolicyRule rule;
  rule.names = layout::one_or_more(json, "name");
  rule.kinds = layout::kinds_of(json);
  const auto size = [&json](std::string_view key) -> std::optional<double> {
    const auto found = json.find(key);
    if (!found) return std::nullopt;
    const double value = size_from(*found);
    if (!std::isfinite(value)) throw found->error("expected a finite number");
    return value;
  };
  rule.multiplier = size("multiplier");
  rule.floor = size("floor");
  rule.absolute = size("absolute");
  if (const auto exact = json.find("exact")) {
    rule.exact = exact->as_bool();
    if (!rule.exact) throw exact->error("expected true; leave it out otherwise");
  }
  if (const auto skip = json.find("skip")) {
    rule.skip = skip->as_string();
    if (rule.skip.empty()) throw skip->error("say why the tensor is not judged");
  }
  if (const auto until = json.find("until")) {
    rule.until = until->as_string();
    if (!is_date(rule.until)) throw until->error("expected a day such as \"2027-01-31\"");
    if (rule.skip.empty()) throw until->error("only a rule with \"skip\" ends on a day");
  }
  const bool judges = rule.multiplier || rule.floor || rule.absolute;
  if (static_cast<int>(judges) + static_cast<int>(rule.exact) +
          static_cast<int>(!rule.skip.empty()) !=
      1) {
    throw json.error(
        "expected one of \"exact\": true, \"skip\", or numbers (\"multiplier\", \"floor\", "
        "\"absolute\")");
  }
  return rule;
}

trace::TensorKey key_from(const JsonCursor& json) {
  trace::TensorKey key;
  key.name = json.require("name").as_string();
  if (const auto problem = trace::name_problem(key.name)) {
    throw json.require("name").error(*problem);
  }
  const std::string kind = json.require("kind").as_string();
  const auto parsed = trace::parse_kind(kind);
  if (!parsed) throw json.require("kind").error("unknown kind \"", base::printable(kind), "\"");
  key.kind = *parsed;
  key.step = json.require("step").as_count();
  if (const auto number = json.find("microbatch")) key.microbatch = number->as_count();
  if (const auto call = json.find("call")) key.call = call->as_count();
  if (const auto copy = json.find("copy")) key.copy = copy->as_count();
  return key;
}

measure::Grid grid_from(const JsonCursor& json, const tensor::Shape& shape) {
  const auto parts = json.find("parts");
  if (!parts) return measure::Grid(shape, tensor::Shape(shape.size(), 1));
  try {
    return measure::Grid(shape, shape_from(*parts));
  } catch (const base::InputError& error) {
    throw parts->error(error.what());
  }
}

CalibratedTensor tensor_from(const JsonCursor& json, std::size_t runs) {
  json.allow_keys({"name", "kind", "step", "microbatch", "call", "copy", "dtype", "shape", "norm",
                   "noise", "largest", "coherence", "parts", "cells"});
  CalibratedTensor tensor;
  const std::string dtype = json.require("dtype").as_string();
  const auto parsed = tensor::parse_dtype(dtype);
  if (!parsed || !tensor::is_floating(*parsed)) {
    throw json.require("dtype").error("\"", base::printable(dtype),
                                      "\" is no floating-point type of a trace");
  }
  tensor.dtype = *parsed;
  tensor.shape = shape_from(json.require("shape"));
  NoiseEstimate& noise = tensor.noise;
  noise.reference_norm = size_from(json.require("norm"));
  noise.norms = sizes_from(json.require("noise"));
  noise.largest = sizes_from(json.require("largest"));
  if (noise.norms.empty() || noise.norms.size() > runs ||
      noise.norms.size() != noise.largest.size()) {
    throw json.error("\"noise\" and \"largest\" must have a number for each of 1 to ", runs,
                     " runs, and have ", noise.norms.size(), " and ", noise.largest.size());
  }
  if (const auto coherence = json.find("coherence")) {
    noise.coherence = sizes_from(*coherence);
    const bool shares = std::all_of(noise.coherence.begin(), noise.coherence.end(),
                                    [](double share) { return share <= 1; });
    if (!shares || noise.coherence.size() != 1 + tensor.shape.size()) {
      throw coherence->error("expected ", 1 + tensor.shape.size(), " numbers from 0 to 1");
    }
  }
  noise.grid = grid_from(json, tensor.shape);
  if (const auto cells = json.find("cells")) {
    noise.cells = sizes_from(*cells);
    if (noise.cells.size() != noise.grid.cells()) {
      throw cells->error(noise.cells.size(), " numbers for ", noise.grid.cells(), " cells");
    }
  }
  return tensor;
}

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

Calibration parse_calibration(std::string_view text, const std::string& file) {
  const base::JsonDocument document(text, file);
  const JsonCursor root = document.root();
  root.require("schema").require_format(kToleranceSchema, "write the file with `ttrace calibrate`");
  root.allow_keys({"schema", "reference", "noise_runs", "rules", "tensors"});
  Calibration calibration;
  if (const auto reference = root.find("reference")) calibration.reference = reference->as_string();
  if (const auto runs = root.find("noise_runs")) {
    for (const JsonCursor& run : runs->items()) calibration.runs.push_back(run.as_string());
  }
  if (const auto rules = root.find("rules")) {
    for (const JsonCursor& rule : rules->items()) calibration.rules.push_back(rule_from(rule));
  }
  if (const auto tensors = root.find("tensors")) {
    for (const JsonCursor& json : tensors->items()) {
      trace::TensorKey key = key_from(json);
      if (!calibration.tensors.emplace(key, tensor_from(json, calibration.runs.size())).second) {
        throw json.error(to_string(key), " is listed twice");
      }
    }
  }
  if (calibration.rules.empty() && calibration.tensors.empty()) {
    throw root.error("neither \"rules\" nor \"tensors\": this file judges nothing");
  }
  return calibration;
}

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
