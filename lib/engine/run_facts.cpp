#include "engine/run_facts.h"

#include <set>

#include "base/concat.h"
#include "layout/mesh_map.h"

namespace ttrace::engine {

report::TraceFacts facts_of(const trace::Source& source) {
  const trace::Manifest& manifest = source.manifest();
  report::TraceFacts facts;
  facts.path = source.path();
  facts.ranks = layout::ranks_of(manifest).size();
  facts.mesh = manifest.meshes.at("").axes;
  facts.precision = manifest.run.precision;
  std::set<std::uint64_t> steps;
  for (const trace::TensorEntry& entry : manifest.tensors) steps.insert(entry.key.step);
  facts.steps.assign(steps.begin(), steps.end());
  return facts;
}

std::vector<std::string> plan_warnings(const trace::Source& reference,
                                       const trace::Source& candidate,
                                       const std::vector<const trace::Source*>& noise) {
  const auto told = [](const trace::Source& run) {
    const auto& plan = run.manifest().run.plan;
    return base::concat(run.path(), plan ? " was rewritten by the plan " : " was not rewritten",
                        plan ? plan->digest.substr(0, 12) : "");
  };
  std::vector<const trace::Source*> others{&candidate};
  others.insert(others.end(), noise.begin(), noise.end());
  std::vector<std::string> warnings;
  for (const trace::Source* run : others) {
    if (run->manifest().run.plan == reference.manifest().run.plan) continue;
    warnings.push_back(base::concat(told(reference), ", ", told(*run),
                                    "; run both with the same plan, or both without one"));
  }
  return warnings;
}

std::vector<std::string> run_warnings(const trace::Source& reference,
                                      const trace::Source& candidate,
                                      const std::vector<const trace::Source*>& noise) {
  std::vector<std::string> warnings = plan_warnings(reference, candidate, noise);
  const std::size_t reference_ranks = layout::ranks_of(reference.manifest()).size();
  if (reference_ranks > 1 && layout::ranks_of(candidate.manifest()).size() == 1) {
    warnings.push_back(
        base::concat("the reference ", reference.path(), " has ", reference_ranks,
                     " ranks and the candidate ", candidate.path(),
                     " one, so they look swapped: the trusted run on one process comes first"));
  }
  return warnings;
}

std::vector<trace::Kind> kinds_in_neither(const trace::Manifest& reference,
                                          const trace::Manifest& candidate) {
  using trace::Kind;
  std::vector<Kind> kinds{Kind::kParam,    Kind::kInput,      Kind::kOutput,
                          Kind::kLoss,     Kind::kGradOutput, Kind::kParamGrad,
                          Kind::kMainGrad, Kind::kGradNorm,   Kind::kParamAfterStep};
  for (const trace::Manifest* manifest : {&reference, &candidate}) {
    for (const trace::TensorEntry& entry : manifest->tensors) std::erase(kinds, entry.key.kind);
  }
  return kinds;
}

}  // namespace ttrace::engine
