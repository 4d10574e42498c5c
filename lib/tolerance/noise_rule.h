// The tolerance of a tensor, or of a part of it, from runs of the reference whose first activation
// was perturbed by one rounding. Source: method §2, measured on healthy parallel runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tolerance/tolerance.h"

namespace ttrace::tolerance {

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
struct NoisyPart {
  double noise = 0;           // ‖R' - R‖, the largest over the runs
  std::size_t runs = 1;       // how many there were
  double reference_norm = 0;  // ‖R‖
  std::uint64_t elements = 0;
  std::uint64_t freedom = 0;  // how many independent numbers the noise is made of
};

// allowed = m · w · N + f · min(w, 8) · ε · ‖R‖ + (f · q + a) · √elements, with w the widening for
// noise of few independent numbers and q the quantum: subnormals are rounded to multiples of it,
// however small they are (healthy fp16 gradients were one quantum apart, 2^-24).
Tolerance noise_tolerance(const NoisyPart& part, double epsilon,
                          const NoiseConstants& constants = {});

// Of a scalar whose noise is known from `fewest_runs_for_scalars` runs or more and is not zero:
// allowed = m · w · N + f · max(ε_stored, min(w, 8) · 2^-23) · |R| + ...
// The precision it was computed in is not in the floor: the noise shows what that does. In bf16 the
// floor of noise_tolerance is 11 % of a loss whose noise is 7e-4.
inline constexpr std::size_t kFewestRunsForScalars = 2;
Tolerance scalar_tolerance(const NoisyPart& part, double epsilon, double stored_epsilon,
                           const NoiseConstants& constants = {});

}  // namespace ttrace::tolerance
