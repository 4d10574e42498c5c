#include "report/to_answer/parts.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "localize/phase.h"
#include "report/finding_groups.h"
#include "report/json/part_of_work_json.h"
#include "report/layer.h"

namespace ttrace::report {

using answer::Answer;
using answer::AnsweredTensor;

Answer::Run run_of(const answer::TraceFacts& facts) {
  Answer::Run run{facts.path, facts.ranks, {}, facts.steps, facts.precision, facts.mesh_ranks};
  for (const trace::MeshAxis& axis : facts.mesh) run.mesh.push_back({axis.name, axis.size});
  return run;
}

std::optional<Answer::Identity> identity_of(const answer::TraceFacts& facts) {
  const trace::Fingerprint& files = facts.fingerprint;
  if (files.content.empty()) return std::nullopt;
  return Answer::Identity{facts.run_id,
                          files.bytes,
                          files.manifest,
                          files.content,
                          {facts.recorded.begin(), facts.recorded.end()}};
}

Answer::Files files_of(const answer::TraceFacts& facts) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(facts.path, error);
  return {error ? facts.path : path.string(), facts.fingerprint.modified};
}

Answer::Selected selected_of(const comparison::Selection& selection, std::optional<bool> common) {
  Answer::Selected out{selection.only, selection.skip, {}, selection.steps, common};
  for (const trace::Kind kind : selection.kinds) out.kinds.emplace_back(kind_name(kind));
  return out;
}

Answer::Environment environment_of(const answer::Environment& environment) {
  Answer::Environment out;
  out.backend = environment.backend;
  out.instruction_set = environment.instruction_set;
  out.remarks = environment.remarks;
  out.threads = environment.threads;
  out.seconds = environment.seconds;
  out.bytes_read = environment.bytes_read;
  out.version = environment.version;
  return out;
}

Answer::Part told_part(const comparison::PartOfWork& part) {
  Answer::Part out;
  out.index = part.number.index;
  out.of = part.number.of;
  out.interrupted = part.interrupted;
  out.comparison = {comparison_id_text(part.comparison)};
  if (part.comparison.local_files) out.files.emplace(part.files.begin(), part.files.end());
  out.measurements = part.measurements;
  return out;
}

answer::AnsweredFinding::Place place_told(const localize::Place& place) {
  return {std::string(localize::name_of(place.kind)), place.of};
}

std::vector<answer::Cause> told_causes(std::vector<answer::Cause> causes) {
  for (answer::Cause& cause : causes) {
    cause.fits = nullptr;  // for the pass that explains alone
    std::sort(cause.values.begin(), cause.values.end());
  }
  return causes;
}

AnsweredTensor tensor_of_key(const trace::TensorKey& key) {
  AnsweredTensor out;
  out.id = id_of(key);
  out.key = key;
  out.phase = phase_name(localize::phase_of(key));
  out.module = trace::module_of(key);
  out.layer = layer_of(out.module);
  return out;
}

std::vector<AnsweredTensor::Check> checks_of(const answer::AuditedTensor& tensor) {
  std::vector<AnsweredTensor::Check> checks;
  for (const answer::AuditCheck& check : tensor.checks) {
    checks.push_back({"", check.operation, std::string(check_result_name(check.result)),
                      check.error, check.bound, check.expected, check.reason, check.by_probes,
                      check.rows, check.ranks});
  }
  return checks;
}

}  // namespace ttrace::report
