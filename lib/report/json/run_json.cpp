#include "report/json/run_json.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "report/json/report_text_json.h"

namespace ttrace::report {

json trace_json(const answer::TraceFacts& facts) {
  json mesh = json::array();
  for (const trace::MeshAxis& axis : facts.mesh) {
    mesh.push_back({{"name", axis.name}, {"size", axis.size}});
  }
  json out{{"path", facts.path},
           {"ranks", facts.ranks},
           {"mesh", std::move(mesh)},
           {"steps", facts.steps},
           {"precision", facts.precision}};
  if (!facts.mesh_ranks.empty()) out["mesh_ranks"] = facts.mesh_ranks;
  return out;
}

json identity_json(const answer::TraceFacts& facts) {
  const trace::Fingerprint& files = facts.fingerprint;
  if (files.content.empty()) return nullptr;
  json out{{"run_id", facts.run_id},
           {"bytes", files.bytes},
           {"manifest", files.manifest},
           {"content", files.content}};
  for (const auto& [name, value] : facts.recorded) out[name] = value;
  return out;
}

json place_json(const answer::TraceFacts& facts) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(facts.path, error);
  return {{"path", error ? facts.path : path.string()}, {"modified", facts.fingerprint.modified}};
}

json selection_json(const comparison::Selection& selection) {
  json kinds = json::array();
  for (const trace::Kind kind : selection.kinds) kinds.push_back(kind_name(kind));
  return {{"only", selection.only},
          {"skip", selection.skip},
          {"kind", std::move(kinds)},
          {"step", selection.steps}};
}

json tolerance_json(const comparison::CompareReport& report) {
  json tolerance{{"rule", report.noise_runs.empty() ? "fallback" : "noise"},
                 {"noise_runs", report.noise_runs}};
  if (!report.tolerance_file.empty()) tolerance["file"] = report.tolerance_file;
  return tolerance;
}

void add_runs(const comparison::CompareReport& report, const json& tolerance, ReportText& text) {
  text.add("verdict", comparison::kCompareWords.of(report.verdict));
  if (!report.why.empty()) text.add("why", report.why);
  if (!report.besides.empty()) text.add("besides", report.besides);
  text.add("exit_code", answer::exit_code(report.verdict));
  text.add("reference", trace_json(report.reference));
  text.add("candidate", trace_json(report.candidate));
  text.add("tolerance", tolerance);
  if (!report.layout_rules.empty()) text.add("layout_rules", report.layout_rules);
  if (!report.map_rules.empty()) text.add("map_rules", report.map_rules);
}

json environment_json(const answer::Environment& environment) {
  json out{{"backend", environment.backend}, {"instruction_set", environment.instruction_set}};
  if (!environment.remarks.empty()) out["remarks"] = environment.remarks;
  out["threads"] = environment.threads;
  out["seconds"] = environment.seconds;
  out["bytes_read"] = environment.bytes_read;
  out["version"] = environment.version;
  return out;
}

}  // namespace ttrace::report
