#include "engine/run_facts.h"

#include <map>
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

std::vector<std::string> disturbance_warnings(const trace::Source& reference,
                                              const trace::Source& candidate,
                                              const std::vector<const trace::Source*>& noise) {
  std::vector<std::string> warnings;
  for (const auto* run : {&reference, &candidate}) {
    if (!run->manifest().run.noise) continue;
    warnings.push_back(base::concat(run->path(), " is a disturbed run (seed ",
                                    run->manifest().run.noise->seed,
                                    "), good only for --noise; give the clean run instead"));
  }
  std::map<std::uint64_t, std::string> seeds;
  for (const trace::Source* run : noise) {
    const auto& facts = run->manifest().run.noise;
    if (!facts) {
      warnings.push_back(
          base::concat(run->path(),
                       " does not say that it was disturbed; if it is a plain copy of the "
                       "reference, its noise is zero and every rounding looks like a bug"));
      continue;
    }
    const auto [earlier, fresh] = seeds.emplace(facts->seed, run->path());
    if (!fresh) {
      warnings.push_back(base::concat(
          run->path(), " and ", earlier->second, " were disturbed with the same seed ", facts->seed,
          " and tell no more than one; run one of them again with a fresh seed"));
    }
  }
  return warnings;
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

}  // namespace ttrace::engine
