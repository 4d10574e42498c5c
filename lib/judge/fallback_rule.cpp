#include "judge/fallback_rule.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/functions.h"
#include "base/text.h"
#include "judge/noise_rule.h"

namespace ttrace::judge {
namespace {

constexpr std::uint64_t kMostLayers = 100000;  // a larger number is no layer number

}  // namespace

std::optional<std::uint64_t> layer_number(std::string_view name) {
  std::size_t start = 0;
  while (start <= name.size()) {
    const std::size_t stop = std::min(name.find('.', start), name.size());
    const std::string_view component = name.substr(start, stop - start);
    std::uint64_t number = 0;
    const auto [end, error] =
        std::from_chars(component.data(), component.data() + component.size(), number);
    if (!component.empty() && error == std::errc() && end == component.data() + component.size() &&
        number < kMostLayers) {
      return number;
    }
    start = stop + 1;
  }
  return std::nullopt;
}

std::uint64_t layer_count(const std::vector<trace::TensorEntry>& tensors) {
  std::uint64_t count = 1;
  for (const trace::TensorEntry& entry : tensors) {
    if (const auto layer = layer_number(entry.key.name)) count = std::max(count, *layer + 1);
  }
  return count;
}

std::uint64_t error_depth(const trace::TensorKey& key, std::uint64_t layers) {
  const auto layer = layer_number(key.name);
  switch (key.kind) {
    case trace::Kind::kParam:
    case trace::Kind::kIndex:
      return 0;
    case trace::Kind::kBuffer:
      if (key.step == 0) return 0;
      [[fallthrough]];  // the step before left it
    case trace::Kind::kBufferAfterStep:
    case trace::Kind::kInput:
    case trace::Kind::kOutput:
      return layer ? std::min(*layer + 1, layers) : layers;
    case trace::Kind::kLoss:
    case trace::Kind::kScalar:
      return layers;
    default:
      return layer ? 2 * layers - std::min(*layer, layers) : 2 * layers;
  }
}

void TypicalSize::add(trace::Kind kind, double reference_norm, std::uint64_t elements) {
  if (elements == 0 || !std::isfinite(reference_norm)) return;
  values_[kind].push_back(reference_norm / std::sqrt(static_cast<double>(elements)));
}

double TypicalSize::rms(trace::Kind kind) const {
  const auto found = values_.find(kind);
  if (found == values_.end()) return 0;
  std::vector<double> sorted = found->second;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

double fallback_multiplier(double epsilon, bool fp8) {
  if (!(epsilon > tensor::epsilon(tensor::DType::kFloat32))) return kFallbackMultiplierWide;
  return fp8 ? kFallbackMultiplierFp8 : kFallbackMultiplierNarrow;
}

double unreached_floor(double epsilon, const NoisySlice& part) {
  if (epsilon > tensor::epsilon(tensor::DType::kFloat32)) return 0;
  const double widening = small_sample_factor(part.freedom, part.runs);
  return kFallbackMultiplierWide / std::min(widening, kMostFloorWidening);
}

double inherited_size(double reference_norm, std::uint64_t elements, std::uint64_t depth,
                      double typical_rms, double inherited) {
  if (elements == 0) return 0;
  const double growth = base::power(kGrowthPerLayer, static_cast<double>(depth));
  const double rms = reference_norm / std::sqrt(static_cast<double>(elements));
  return kInheritedMultiplier * growth * inherited * (rms + typical_rms);
}

Tolerance fallback_tolerance(double reference_norm, double epsilon, std::uint64_t elements,
                             std::uint64_t depth, double typical_rms, const FallbackRun& run,
                             double quantum) {
  const double growth = base::power(kGrowthPerLayer, static_cast<double>(depth));
  Tolerance tolerance;
  tolerance.rule = Rule::kFallback;
  tolerance.epsilon = epsilon;
  tolerance.multiplier = fallback_multiplier(epsilon, run.fp8);
  const double root = std::sqrt(static_cast<double>(elements));
  const double size = reference_norm + root * typical_rms;
  tolerance.floor_norm = kFloorMultiplier * quantum * root;
  tolerance.unit_norm = growth * epsilon * size;
  tolerance.formula = base::concat(base::short_number(tolerance.multiplier), "·",
                                   base::short_number(kGrowthPerLayer), "^", depth, "·ε");
  if (run.inherited > 0) {
    tolerance.floor_norm += kInheritedMultiplier * growth * run.inherited * size;
    tolerance.formula += base::concat(" + ", base::short_number(kInheritedMultiplier), "·",
                                      base::short_number(run.inherited), " of the parameters");
  }
  return tolerance;
}

}  // namespace ttrace::judge
