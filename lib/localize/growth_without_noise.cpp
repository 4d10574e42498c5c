#include "localize/growth_without_noise.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/message.h"
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

bool is_in_tf32(const TensorComparison& result) {
  const tensor::DType tf32 = tensor::DType::kTensorFloat32;
  return result.reference->computed_in == tf32 || result.candidate->computed_in == tf32;
}

bool is_forward(trace::Kind kind) {
  return kind == trace::Kind::kInput || kind == trace::Kind::kOutput ||
         kind == trace::Kind::kLoss || kind == trace::Kind::kScalar;
}

// `activations_grew`: whether an activation so far exceeded the rule.
double most_growth(const TensorComparison& result, bool activations_grew) {
  const trace::Kind kind = result.key.kind;
  if (is_forward(kind)) return kMostGrowth;
  if (activations_grew || !is_in_tf32(result)) return kMostGrowthOfGradients;
  const bool of_parameter = kind == trace::Kind::kParamGrad || kind == trace::Kind::kMainGrad;
  if (!of_parameter) return kMostGrowthInTf32;
  if (result.shape.size() > 2) return kMostGrowthOfConvolutionsInTf32;
  return result.shape.size() == 2 ? kMostGrowthOfMatricesInTf32 : kMostGrowthOfSumsInTf32;
}

// Whether both sides are stored in f32 or f64 and were computed in these or in TF32.
bool is_wide(const TensorComparison& result) {
  const auto is_wide_view = [](const layout::View& view) {
    const tensor::DType computed_in = view.computed_in.value_or(view.dtype);
    return (computed_in == tensor::DType::kTensorFloat32 ||
            tensor::epsilon(computed_in) <= tensor::epsilon(tensor::DType::kFloat32)) &&
           tensor::epsilon(view.dtype) <= tensor::epsilon(tensor::DType::kFloat32);
  };
  return is_wide_view(*result.reference) && is_wide_view(*result.candidate);
}

// Whether the tensor matches with an allowance for kinks before it.
bool has_room_of_kinks(const TensorComparison& result) {
  return result.outcome == Outcome::kMatch && result.comparison &&
         result.comparison->tolerance.kinks > 0;
}

// The error as a multiple of the fallback rule's tolerance, for a wide tensor that diverged by that
// rule or matches only because of the allowance for kinks; 0 for any other tensor.
double excess(const TensorComparison& result) {
  const bool has_room = has_room_of_kinks(result);
  if (result.outcome != Outcome::kDiverged && !has_room) return 0;
  if (!result.comparison || result.exact) return 0;
  const comparison::ComparedNumbers& numbers = *result.comparison;
  const measure::TileStats& stats = numbers.measurement.total;
  const judge::Tolerance& tolerance = numbers.tolerance;
  const double allowed = has_room
                             ? tolerance.multiplier * tolerance.unit_norm + tolerance.own_rounding
                             : tolerance.allowed_norm();
  if (tolerance.rule != judge::Rule::kFallback || numbers.replay || stats.nonfinite_different > 0 ||
      !(allowed > 0) || !is_wide(result)) {
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
  bool activations_grew = false;
  for (const std::size_t i : flow.topological_order) {
    TensorComparison& result = out.results[i];
    double before = 0;
    for (const std::size_t d : flow.depends_on[i]) before = std::max(before, grown[d]);
    const double times = excess(result);
    if (times == 0) continue;  // one side alone may have it
    const double most = most_growth(result, activations_grew) * std::max(before, 1.0);
    if (times > most) continue;
    grown[i] = times;
    activations_grew = activations_grew || (times > 1 && is_forward(result.key.kind));
    if (result.outcome == Outcome::kMatch) continue;
    ++out.growth.tensors;
    result.outcome = Outcome::kNotJudged;
    result.reason = base::render(
        {"off by {times} times what is allowed without noise runs", {{"times", times}}});
  }
}

}  // namespace ttrace::localize
