#include "engine/tolerances.h"

#include <map>

#include "tolerance/fallback_rule.h"
#include "tolerance/noise_rule.h"
#include "tolerance/replay_rule.h"

namespace ttrace::engine {

void resolve_tolerances(const trace::Manifest& reference, const std::vector<Pair>& pairs,
                        std::vector<report::Result>& results) {
  tolerance::TypicalSize typical;
  for (const report::Result& result : results) {
    if (!result.comparison || result.exact) continue;
    const compare::TileStats& stats = result.comparison->measurement.total;
    typical.add(result.key.kind, compare::reference_norm(stats), stats.finite);
  }
  std::map<trace::Kind, double> typical_rms;
  for (const trace::Kind kind : trace::kAllKinds) typical_rms.emplace(kind, typical.rms(kind));
  const std::uint64_t layers = tolerance::layer_count(reference.tensors);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].comparison) continue;
    report::Comparison& comparison = *results[i].comparison;
    if (results[i].exact) {
      comparison.tolerance = tolerance::exact_tolerance();
      continue;
    }
    const compare::TileStats& stats = comparison.measurement.total;
    const double norm = compare::reference_norm(stats);
    const double epsilon = tolerance::shared_epsilon(*pairs[i].reference, *pairs[i].candidate);
    if (const auto& replay = comparison.replay) {
      comparison.tolerance =
          tolerance::replay_tolerance({compare::difference_norm(stats), replay->bound_norm,
                                       replay->worst ? replay->worst->ratio : 0, replay->optimizer},
                                      epsilon);
      continue;
    }
    const std::vector<double>& noise = comparison.measurement.noise_norms;
    comparison.tolerance =
        noise.empty()
            ? tolerance::fallback_tolerance(norm, epsilon, stats.finite,
                                            tolerance::error_depth(results[i].key, layers),
                                            typical_rms.at(results[i].key.kind))
            : tolerance::noise_tolerance(noise, norm, epsilon, stats.finite);
  }
}

}  // namespace ttrace::engine
