// The fallback rule, for tensors without perturbed runs: the error bound of the paper's
// theorem 5.3. It does not depend on the model, so healthy runs of deep or ill-conditioned models
// may exceed it; the report says where this rule judged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "judge/noise_rule.h"
#include "judge/tolerance.h"
#include "trace/key.h"

namespace ttrace::judge {

// The multipliers k. Products of narrow types are summed in f32, so their errors come from single
// roundings; f32 and f64 are summed in their own precision. fp8 recipes round to ε = 2^-3, which is
// 16 times the ε of bf16, the precision of their results. In 366 healthy runs
// (tests/power/RESULTS.md, "Closest to the limit") fp16 reaches 0.69 of the limit, f32 0.91, fp8
// 0.80; bf16 exceeds it only in mixtures of experts after routing flips, where the run is
// inconclusive.
inline constexpr double kFallbackMultiplierNarrow = 6;
inline constexpr double kFallbackMultiplierFp8 = 16;
inline constexpr double kFallbackMultiplierWide = 24;
// The multiplier of the difference between the parameters that a step begins with, after the first
// step: Adam turns gradients that are pure noise into full steps.
inline constexpr double kInheritedMultiplier = 4;
inline constexpr double kGrowthPerLayer = 1.03;  // C

// The first component of a dotted name that is a whole number ("layers.3.mlp" -> 3), or nothing.
std::optional<std::uint64_t> layer_number(std::string_view name);

// The largest layer number in the names plus one; at least 1.
std::uint64_t layer_count(const std::vector<trace::TensorEntry>& tensors);

// The number of layers through which an error has passed: l for activations, L + (L - l) for
// gradients and everything after them, 0 for the inputs of the step. Names without a layer number
// count as the deepest.
std::uint64_t error_depth(const trace::TensorKey& key, std::uint64_t layers);

// The typical size of the elements of each kind of tensor: the median over the tensors of a trace
// of their root mean square. Tensors whose elements nearly cancel are judged on the scale of their
// kind.
class TypicalSize {
 public:
  void add(trace::Kind kind, double reference_norm, std::uint64_t elements);
  double rms(trace::Kind kind) const;

 private:
  std::map<trace::Kind, std::vector<double>> values_;
};

// The multiplier k for a precision: narrow if `epsilon` is coarser than that of f32. `fp8`: the run
// uses an fp8 recipe.
double fallback_multiplier(double epsilon, bool fp8);

// The floor, in units of ε, of a tensor in which no noise run differs. In f32 and f64, which are
// summed in their own precision, widening it for few elements gives the fallback's multiplier; in
// narrow types, whose errors come from single roundings, it is 0.
double unreached_floor(double epsilon, const NoisySlice& part);

// Facts about the run that affect the tolerance of all its tensors.
struct FallbackRun {
  bool fp8 = false;
  double inherited = 0;  // ‖C - R‖ / ‖R‖ of all parameters at the start of the step; 0 in the first
};

// The root mean square error per element that a difference `inherited` of the parameters causes:
// 4 · C^depth · inherited · (‖R‖ / √elements + typical_rms).
double inherited_size(double reference_norm, std::uint64_t elements, std::uint64_t depth,
                      double typical_rms, double inherited);

// allowed = C^depth · (k · ε + 4 · inherited) · (‖R‖ + √elements · typical_rms) + 2 · q · √elements
// where q is `quantum`, from shared_quantum().
Tolerance fallback_tolerance(double reference_norm, double epsilon, std::uint64_t elements,
                             std::uint64_t depth, double typical_rms, const FallbackRun& run = {},
                             double quantum = 0);

}  // namespace ttrace::judge
