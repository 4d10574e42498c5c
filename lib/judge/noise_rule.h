// The noise rule: measures how far perturbed runs of the reference are from it, for a tensor and
// for any slice of it, and derives how far a candidate may be.
//
// A perturbed run is the reference with its first activation changed by one rounding. Source:
// lib/judge/README.md, measured on healthy parallel runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "judge/tolerance.h"
#include "measure/grid.h"
#include "measure/noise.h"
#include "tensor/box.h"

namespace ttrace::judge {

// The noise of one tensor: the distances of the perturbed runs R' from the reference R.
struct NoiseEstimate {
  double reference_norm = 0;    // ‖R‖
  std::vector<double> norms;    // ‖R' - R‖ of every run; at least one
  std::vector<double> largest;  // max |R' - R| of every run
  measure::Grid grid = measure::Grid({}, {});
  // The largest noise over the runs in each cell of the grid, relative to the cell's share if the
  // largest of `norms` were spread evenly over the tensor. Rounded up to three digits. Empty if the
  // noise counts as even.
  std::vector<double> cells;
  // The fraction of the noise along R, see measure::MeasuredNoise: of the whole tensor, then of the
  // blocks of every dimension. Rounded up to three digits. Empty if no run differs.
  std::vector<double> coherence = {};

  double norm() const;           // the largest of `norms`
  double largest_value() const;  // the largest of `largest`
};

// Builds the estimate from measured noise. It has no cells if a run is not finite, if there is no
// noise, or if the grid has a single cell.
NoiseEstimate estimate_of(const measure::MeasuredNoise& noise, const measure::Grid& grid);

// Rounds `value` > 0 up to three significant digits; leaves 0, infinity and NaN as they are.
// Measured estimates and those read from a calibration thus have the same digits and judge alike.
double three_digits_up(double value);

// The noise within a slice.
struct SliceNoise {
  double norm = 0;    // ‖R' - R‖ over the slice
  double spread = 1;  // the fraction of the slice that carries the noise; 1 if it is even
};
// The noise within `boxes`, and within the whole tensor.
SliceNoise noise_within(const NoiseEstimate& estimate, const std::vector<tensor::Box>& boxes);
SliceNoise noise_of_all(const NoiseEstimate& estimate);

// The number of independent values in the noise of `elements` elements: those that carry it.
std::uint64_t freedom(const SliceNoise& noise, std::uint64_t elements);

// Ratios of sums over few random elements scatter widely: a scalar's noise can be zero by chance.
// Returns the factor ≥ 1 by which noise of `elements` independent elements, measured in `runs`
// runs, is widened: the square root of the 99 % quantile of the F distribution with (elements, runs
// · elements) degrees of freedom, which is the distribution of the ratio of two such mean squares.
// 1 from 4,096 elements on, where the quantile gives less than 1.04.
double small_sample_factor(std::uint64_t elements, std::size_t runs);

// The quantile p of the F distribution with d1 and d2 degrees of freedom, relative accuracy 1e-9.
// Source: inverse of the regularized incomplete beta function, DLMF 8.17.22 (continued fraction).
double f_quantile(double p, double d1, double d2);

inline constexpr double kNoiseMultiplier = 4;  // m: healthy runs reach 2.3
inline constexpr double kFloorMultiplier = 2;  // f: in units of ε·‖R‖, for tensors without noise

// The floor is widened for small samples too, by at most this factor: a healthy gradient norm was
// off by 3.4 ε while the only noise run had no noise.
inline constexpr double kMostFloorWidening = 8;

// The constants of the rule that a policy may change.
struct NoiseConstants {
  double multiplier = kNoiseMultiplier;
  double floor = kFloorMultiplier;
  double absolute = 0;  // root mean square per element of a difference that is always allowed
  double quantum = 0;   // spacing of the stored numbers near 0, from shared_quantum()
  // That of the numbers that a single element was computed from; used if it is wider.
  double element_quantum = 0;
  double slice_scale_floor = 0;  // in units of ε: allowed of the scale of a slice on top
};

// The input of the rule, for a tensor or a slice of one.
struct NoisySlice {
  double noise = 0;           // ‖R' - R‖, the largest over the runs
  std::size_t runs = 1;       // the number of runs
  double reference_norm = 0;  // ‖R‖
  std::uint64_t elements = 0;
  std::uint64_t freedom = 0;  // the number of independent values in the noise
};

// allowed = m · w · N + f · min(w, 8) · ε · ‖R‖ + (f · q + a) · √elements, where w is the small
// sample factor and q the quantum. Subnormals of any size are rounded to multiples of q: healthy
// fp16 gradients were one quantum (2^-24) apart.
Tolerance noise_tolerance(const NoisySlice& slice, double epsilon,
                          const NoiseConstants& constants = {});
// The same without its formula: a tensor has up to a hundred slices, and writing a formula takes
// longer than judging one.
Tolerance noise_numbers(const NoisySlice& slice, double epsilon, const NoiseConstants& constants);

// The tolerance of a scalar whose noise is not zero and known from kFewestRunsForScalars runs or
// more:
//   allowed = m · w · N + f · max(ε_stored, min(w, 8) · 2^-23) · |R| + ...
// The floor leaves out the precision of the computation, because the noise already contains its
// effect. In bf16, noise_tolerance() would allow 11 % for a loss whose noise is 7e-4.
inline constexpr std::size_t kFewestRunsForScalars = 2;
Tolerance scalar_tolerance(const NoisySlice& slice, double epsilon, double stored_epsilon,
                           const NoiseConstants& constants = {});

}  // namespace ttrace::judge
