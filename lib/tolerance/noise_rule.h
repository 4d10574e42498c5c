// The tolerance of a tensor, or of a part of it, from runs of the reference whose first activation
// was disturbed by one rounding. Source: method §2, measured on healthy parallel runs.
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
};

// What the rule looks at: a tensor or a part of one.
struct NoisyPart {
  double noise = 0;           // ‖R' - R‖, the largest over the runs
  std::size_t runs = 1;       // how many there were
  double reference_norm = 0;  // ‖R‖
  std::uint64_t elements = 0;
  std::uint64_t freedom = 0;  // how many independent numbers the noise is made of
};

// allowed = m · w · N + f · min(w, 8) · ε · ‖R‖ + a · √elements, with w the widening for noise of
// few independent numbers.
Tolerance noise_tolerance(const NoisyPart& part, double epsilon,
                          const NoiseConstants& constants = {});

}  // namespace ttrace::tolerance
