// The tolerance of a tensor without disturbed runs: the error bound of the paper's theorem 5.3. It
// knows nothing of the model, so deep or ill-conditioned ones may exceed it; the report says where
// it judged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "judge/tolerance.h"
#include "trace/key.h"

namespace ttrace::judge {

// k. Narrow types are multiplied but summed in f32, so their errors come from single roundings; f32
// and f64 are summed in themselves. Recipes with fp8 round to ε = 2^-3, 16 times that of the bf16
// that their results are told in. From 366 healthy runs of 2 to 16 layers (tests/power): with these
// values bf16 and fp16 reach 0.85 of the limit, f32 0.91, fp8 0.85.
inline constexpr double kFallbackMultiplierNarrow = 6;
inline constexpr double kFallbackMultiplierFp8 = 16;
inline constexpr double kFallbackMultiplierWide = 24;
// Of how far apart the parameters are that a step begins with, once an optimizer has stepped: Adam
// turns gradients that are all noise into full steps. Healthy runs reach 0.5 of it.
inline constexpr double kInheritedMultiplier = 4;
inline constexpr double kGrowthPerLayer = 1.03;  // C

// The first whole number among the dotted parts of a canonical name ("layers.3.mlp" -> 3), or
// nothing.
std::optional<std::uint64_t> layer_number(std::string_view name);

// One more than the largest layer number in the names, at least 1.
std::uint64_t layer_count(const std::vector<trace::TensorEntry>& tensors);

// Layers an error has passed: l for activations, L + (L - l) for gradients and what follows from
// them, 0 for what the step starts from. Names without a number count as the farthest.
std::uint64_t error_depth(const trace::TensorKey& key, std::uint64_t layers);

// The median over a trace's tensors of each kind of the root mean square of their elements: nearly
// cancelling tensors are judged on the scale of their kind.
class TypicalSize {
 public:
  void add(trace::Kind kind, double reference_norm, std::uint64_t elements);
  double rms(trace::Kind kind) const;

 private:
  std::map<trace::Kind, std::vector<double>> values_;
};

// k for a precision: narrow if `epsilon` is coarser than f32's. `fp8`: of a recipe with it.
double fallback_multiplier(double epsilon, bool fp8);

// What of a run matters to all of its tensors.
struct FallbackRun {
  bool fp8 = false;
  double inherited = 0;  // ‖C - R‖ / ‖R‖ of all parameters that the step began with; 0 in the first
};

// allowed = C^depth · (k · ε + 4 · inherited) · (‖R‖ + √elements · typical_rms) + 2 · q · √elements
// with q the `quantum`, as shared_quantum has it.
Tolerance fallback_tolerance(double reference_norm, double epsilon, std::uint64_t elements,
                             std::uint64_t depth, double typical_rms, const FallbackRun& run = {},
                             double quantum = 0);

}  // namespace ttrace::judge
