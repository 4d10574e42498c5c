#include "localize/growth_without_noise.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "tensor/dtype.h"

namespace ttrace::localize {
namespace {

using comparison::TensorComparison;
using judge::Outcome;

constexpr std::size_t kFewestDimensions = 4;  // of the weight of a convolution over images

bool is_convolution(std::string_view class_name) {
  for (const std::string_view known : {"Conv1d", "Conv2d", "Conv3d"}) {
    if (class_name.find(known) != std::string_view::npos) return true;
  }
  return false;
}

double most_growth(trace::Kind kind) {
  const bool forward = kind == trace::Kind::kInput || kind == trace::Kind::kOutput ||
                       kind == trace::Kind::kLoss || kind == trace::Kind::kScalar;
  return forward ? kMostGrowth : kMostGrowthOfGradients;
}

// By how many times a tensor that diverged by the fallback rule in f32 or f64 exceeds it; 0 of any
// other.
double excess(const TensorComparison& result) {
  if (result.outcome != Outcome::kDiverged || !result.comparison || result.exact) return 0;
  const comparison::ComparedNumbers& numbers = *result.comparison;
  const measure::TileStats& stats = numbers.measurement.total;
  const double allowed = numbers.tolerance.allowed_norm();
  if (numbers.tolerance.rule != judge::Rule::kFallback || numbers.replay ||
      stats.nonfinite_different > 0 || !(allowed > 0) ||
      numbers.tolerance.epsilon > tensor::epsilon(tensor::DType::kFloat32)) {
    return 0;
  }
  return measure::difference_norm(stats) / allowed;
}

}  // namespace

bool convolves(const trace::Manifest& manifest) {
  const bool by_class =
      std::any_of(manifest.modules.begin(), manifest.modules.end(),
                  [](const trace::Module& module) { return is_convolution(module.class_name); });
  return by_class || std::any_of(manifest.tensors.begin(), manifest.tensors.end(),
                                 [](const trace::TensorEntry& entry) {
                                   return entry.key.kind == trace::Kind::kParam &&
                                          entry.shape.size() >= kFewestDimensions;
                                 });
}

void leave_growth_unjudged(const Dataflow& flow, comparison::CompareReport& out) {
  std::vector<double> grown(out.results.size(), 0);
  for (const std::size_t i : flow.topological_order) {
    TensorComparison& result = out.results[i];
    double before = 0;
    for (const std::size_t d : flow.depends_on[i]) before = std::max(before, grown[d]);
    const double times = excess(result);
    const double most = most_growth(result.key.kind) * std::max(before, 1.0);
    if (times == 0 || times > most) continue;
    grown[i] = times;
    ++out.growth.tensors;
    result.outcome = Outcome::kNotJudged;
    result.reason = base::concat("off by ", base::short_number(times),
                                 " times what is allowed without noise runs");
  }
}

}  // namespace ttrace::localize
