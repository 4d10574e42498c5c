// The noise rule: how far runs of the reference whose first activation was perturbed by one
// rounding are from it, in a tensor and in any box of it, and how much a candidate may differ by
// that measure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "judge/tolerance.h"
#include "measure/grid.h"
#include "measure/noise.h"
#include "tensor/box.h"

namespace ttrace::judge {

struct NoiseEstimate {
  double reference_norm = 0;    // ‖R‖
  std::vector<double> norms;    // ‖R' - R‖ of every run; at least one
  std::vector<double> largest;  // max |R' - R| of every run
  measure::Grid grid = measure::Grid({}, {});
  // By cell, the largest noise over the runs, in units of what the cell would have if the largest
  // of `norms` lay evenly over the tensor. Three digits, rounded up. Empty: evenly.
  std::vector<double> cells;

  // How much of it lies along R, as measure::Noise has it: of the whole, and of the parts of every
  // dimension. Three digits, rounded up. Empty where no run differs.
  std::vector<double> coherence = {};

  double norm() const;           // the largest of `norms`
  double largest_value() const;  // the largest of `largest`
};

// Where a run is not finite, where all is zero, and of a single cell, there are no cells.
NoiseEstimate estimate_of(const measure::Noise& noise, const measure::Grid& grid);

// `value` ≥ 0 rounded up to three significant digits.
double three_digits_up(double value);

// The noise of a part of the tensor.
struct SliceNoise {
  double norm = 0;    // ‖R' - R‖ over the part
  double spread = 1;  // 1 where it lies evenly; the share of the part that has it where it does not
};
SliceNoise noise_within(const NoiseEstimate& estimate, const std::vector<tensor::Box>& boxes);
SliceNoise noise_of_all(const NoiseEstimate& estimate);

// Of how many independent numbers the noise of `elements` elements is made: those that carry it.
std::uint64_t freedom(const SliceNoise& noise, std::uint64_t elements);

// Factor ≥ 1 by which the noise of `elements` elements, seen in `runs` runs, is widened: the square
// root of the 99 % quantile of the F distribution with (elements, runs · elements) degrees of
// freedom, the distribution of the ratio of two such mean squares. 1 from 4,096 elements on, where
// it is below 1.04.
double small_sample_factor(std::uint64_t elements, std::size_t runs);

// Quantile p of the F distribution with d1 and d2 degrees of freedom, relative accuracy 1e-9.
// Source: inverse of the regularized incomplete beta function, DLMF 8.17.22 (continued fraction).
double f_quantile(double p, double d1, double d2);

// The tolerance of a tensor, or of a part of it, from runs of the reference whose first activation
// was perturbed by one rounding. Source: lib/judge/README.md, measured on healthy parallel runs.

inline constexpr double kNoiseMultiplier = 4;  // m: healthy runs reach 2.3
inline constexpr double kFloorMultiplier = 2;  // f: of ε·‖R‖, for what no noise reaches

// The noise of a scalar can be zero by chance, so its floor is widened too, up to this: a healthy
// gradient norm stood at 3.4 ε where the only noise run had none.
inline constexpr double kMostFloorWidening = 8;

// What a policy may change.
struct NoiseConstants {
  double multiplier = kNoiseMultiplier;
  double floor = kFloorMultiplier;
  double absolute = 0;  // per element: root mean square of a difference that is always allowed
  double quantum = 0;   // spacing of the stored numbers near 0, as shared_quantum has it
};

// What the rule looks at: a tensor or a part of one.
struct NoisySlice {
  double noise = 0;           // ‖R' - R‖, the largest over the runs
  std::size_t runs = 1;       // how many there were
  double reference_norm = 0;  // ‖R‖
  std::uint64_t elements = 0;
  std::uint64_t freedom = 0;  // how many independent numbers the noise is made of
};

// allowed = m · w · N + f · min(w, 8) · ε · ‖R‖ + (f · q + a) · √elements, with w the widening for
// noise of few independent numbers and q the quantum: subnormals are rounded to multiples of it,
// however small they are (healthy fp16 gradients were one quantum apart, 2^-24).
Tolerance noise_tolerance(const NoisySlice& slice, double epsilon,
                          const NoiseConstants& constants = {});

// Of a scalar whose noise is known from `fewest_runs_for_scalars` runs or more and is not zero:
// allowed = m · w · N + f · max(ε_stored, min(w, 8) · 2^-23) · |R| + ...
// The precision it was computed in is not in the floor: the noise shows what that does. In bf16 the
// floor of noise_tolerance is 11 % of a loss whose noise is 7e-4.
inline constexpr std::size_t kFewestRunsForScalars = 2;
Tolerance scalar_tolerance(const NoisySlice& slice, double epsilon, double stored_epsilon,
                           const NoiseConstants& constants = {});

}  // namespace ttrace::judge
