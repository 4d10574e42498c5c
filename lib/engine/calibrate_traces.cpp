#include "engine/calibrate_traces.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "comparison/measure_pairs.h"
#include "comparison/noise_runs.h"
#include "comparison/pairing.h"
#include "comparison/run_facts.h"
#include "judge/slices.h"

namespace ttrace::engine {
namespace {

constexpr double kChaotic = 0.5;  // ‖R' - R‖ / ‖R‖ from which a tensor's tolerance checks nothing
constexpr double kStarterRoom = 1.5;

void require_complete(const trace::Source& source) {
  const std::vector<std::string> lost = comparison::lost_ranks_of(source).problems;
  if (lost.empty()) return;
  throw base::input_error(lost.front(), "; a calibration needs whole runs");
}

// Counts one tensor for the summary.
void count(const trace::TensorKey& key, const judge::NoiseEstimate& noise,
           CalibrationSummary& summary, std::vector<double>& relative, std::string& first_chaotic) {
  const double norm = noise.norm();
  if (norm == 0) ++summary.silent;
  if (noise.reference_norm > 0 && std::isfinite(norm)) {
    relative.push_back(norm / noise.reference_norm);
  }
  if (norm > 0 && !(norm < kChaotic * noise.reference_norm)) {
    if (first_chaotic.empty()) first_chaotic = to_string(key);
    ++summary.chaotic;
  }
}

void warn(const std::string& first_chaotic, CalibrationSummary& summary) {
  if (summary.chaotic > 0) {
    summary.warnings.push_back(base::concat(
        "one rounding of the input changes ", base::plural(summary.chaotic, "tensor"),
        " by half their norm or more (first ", first_chaotic,
        "): the model amplifies rounding, and these tensors cannot be checked this way"));
  }
  if (summary.without > 0) {
    summary.warnings.push_back(base::concat(base::plural(summary.without, "tensor"),
                                            " of the reference are in no run, and not calibrated"));
  }
}

}  // namespace

judge::Calibration calibrate_traces(const trace::Source& reference,
                                    const std::vector<const trace::Source*>& runs,
                                    const measure::ExecutionContext& execution,
                                    CalibrationSummary& summary) {
  const auto side = [](const trace::Source& source) {
    comparison::require_sound_layouts(source);
    require_complete(source);
    return comparison::Side{&source, comparison::tensors_of(source.manifest())};
  };
  const comparison::Side reference_side = side(reference);
  comparison::NoiseRuns checked = comparison::check_noise_runs(reference, reference, runs);
  summary.warnings = std::move(checked.warnings);
  std::vector<comparison::Side> sides;
  for (const trace::Source* run : checked.runs) sides.push_back(side(*run));
  const std::vector<comparison::Pair> pairs =
      comparison::pair_traces(reference_side, reference_side, sides);
  const comparison::NoiseSource source(reference.manifest(), nullptr, *execution.backend);
  std::vector<std::optional<judge::NoiseEstimate>> found(pairs.size());
  execution.parallel_for(pairs.size(), [&](std::size_t i) {
    std::uint64_t bytes = 0;
    found[i] = source.of(reference, pairs[i], bytes);
  });

  judge::Calibration calibration;
  calibration.reference = reference.path();
  for (const trace::Source* run : checked.runs) calibration.runs.push_back(run->path());
  comparison::NoiseDifferences differences(reference.manifest());
  std::vector<double> relative;
  std::string first_chaotic;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const layout::View& view = *pairs[i].reference;
    if (!tensor::is_floating(view.dtype)) continue;
    ++summary.tensors;
    if (!found[i]) {
      ++summary.without;
      continue;
    }
    differences.add(pairs[i], *found[i]);
    count(view.key, *found[i], summary, relative, first_chaotic);
    calibration.tensors.emplace(
        view.key, judge::CalibratedTensor{view.dtype, view.shape, std::move(*found[i])});
  }
  if (calibration.tensors.empty()) {
    throw base::input_error(reference.path(),
                            ": no floating-point tensor of it is in a perturbed run; give runs of "
                            "this reference");
  }
  differences.require_some();
  warn(first_chaotic, summary);
  if (!relative.empty()) {
    const auto middle = relative.begin() + static_cast<std::ptrdiff_t>(relative.size() / 2);
    std::nth_element(relative.begin(), middle, relative.end());
    summary.median_noise = *middle;
  }
  return calibration;
}

judge::Policy starter_rules(const comparison::CompareReport& report) {
  std::map<std::pair<std::string, trace::Kind>, double> needed;
  for (const comparison::TensorComparison& result : report.results) {
    if (result.outcome != judge::Outcome::kDiverged || !result.comparison || result.exact) {
      continue;
    }
    const comparison::ComparedNumbers& comparison = *result.comparison;
    const double multiplier = comparison::passing_multiplier(comparison);
    double& most = needed[{judge::name_pattern(result.key.name), result.key.kind}];
    most = std::max(most, multiplier);
  }
  judge::Policy rules;
  for (const auto& [what, multiplier] : needed) {
    // A tensor that no multiplier lets pass needs the decision of a person.
    if (!std::isfinite(multiplier)) continue;
    judge::PolicyRule rule;
    rule.names = {what.first};
    rule.kinds = {what.second};
    rule.multiplier = judge::three_digits_up(kStarterRoom * multiplier);
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace ttrace::engine
