#include "report/parts_json.h"

#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/concat.h"
#include "base/number_text.h"

namespace ttrace::report {

using json = nlohmann::ordered_json;

namespace {

// Paths need not be UTF-8; a report that cannot be written helps nobody.
std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

json nine_digits(json value) {
  if (value.is_number_float()) {
    return std::strtod(base::nine_digits(value.get<double>()).c_str(), nullptr);
  }
  if (value.is_structured()) {
    for (json& item : value) item = nine_digits(std::move(item));
  }
  return value;
}

json key_json(const trace::TensorKey& key) {
  json out{{"step", key.step}};
  if (key.microbatch) {
    out["microbatch"] = *key.microbatch;
  } else {
    out["microbatch"] = nullptr;
  }
  out["kind"] = kind_name(key.kind);
  out["name"] = key.name;
  out["call"] = key.call;
  if (key.copy != 0) out["copy"] = key.copy;
  return out;
}

json trace_json(const TraceFacts& facts) {
  json mesh = json::array();
  for (const trace::MeshAxis& axis : facts.mesh) {
    mesh.push_back({{"name", axis.name}, {"size", axis.size}});
  }
  return {{"path", facts.path},
          {"ranks", facts.ranks},
          {"mesh", std::move(mesh)},
          {"steps", facts.steps},
          {"precision", facts.precision}};
}

json causes_json(const std::vector<diagnosis::Cause>& causes) {
  json out = json::array();
  for (const diagnosis::Cause& cause : causes) {
    out.push_back({{"name", cause.name},
                   {"axis", cause.axis.empty() ? json(nullptr) : json(cause.axis)},
                   {"evidence", cause.evidence},
                   {"unexplained", number(cause.unexplained)}});
  }
  return out;
}

ReportText::ReportText(std::string_view schema) : text_("{\n  \"schema\": " + dumped(schema)) {}

void ReportText::add(std::string_view name, const json& value) {
  text_ += base::concat(",\n  \"", name, "\": ", dumped(value));
}

void ReportText::begin_lines(std::string_view name) {
  text_ += base::concat(",\n  \"", name, "\": [");
  any_line_ = false;
}

void ReportText::add_line(const json& value) {
  text_ += any_line_ ? ",\n    " : "\n    ";
  text_ += dumped(value);
  any_line_ = true;
}

void ReportText::end_lines() { text_ += any_line_ ? "\n  ]" : "]"; }

void ReportText::add_part(const PartOfWork& part) {
  text_ +=
      base::concat(",\n  \"part\": {\"index\": ", part.number.index, ", \"of\": ", part.number.of,
                   ", \"interrupted\": ", part.interrupted ? "true" : "false",
                   ", \"comparison\": ", comparison_id_text(part.comparison));
  text_ += ", \"measurements\": [";
  any_line_ = false;
  for (const std::string& line : part.measurements) add_line(line);
  end_lines();
  text_ += "}";
}

std::string ReportText::done() && { return std::move(text_) + "\n}\n"; }

json tolerance_json(const CompareReport& report) {
  json tolerance{{"rule", report.noise_runs.empty() ? "fallback" : "noise"},
                 {"noise_runs", report.noise_runs}};
  if (!report.tolerance_file.empty()) tolerance["file"] = report.tolerance_file;
  return tolerance;
}

void add_runs(const CompareReport& report, const json& tolerance, ReportText& text) {
  text.add("verdict", verdict_name(report.verdict));
  if (!report.why.empty()) text.add("why", report.why);
  text.add("exit_code", exit_code(report.verdict));
  text.add("reference", trace_json(report.reference));
  text.add("candidate", trace_json(report.candidate));
  text.add("tolerance", tolerance);
  if (!report.layout_rules.empty()) text.add("layout_rules", report.layout_rules);
  if (!report.map_rules.empty()) text.add("map_rules", report.map_rules);
}

void add_environment(const CompareReport& report, ReportText& text) {
  const Environment& environment = report.environment;
  text.add("environment", {{"backend", environment.backend},
                           {"instruction_set", environment.instruction_set},
                           {"threads", environment.threads},
                           {"seconds", environment.seconds},
                           {"bytes_read", environment.bytes_read},
                           {"version", environment.version}});
}

}  // namespace ttrace::report
