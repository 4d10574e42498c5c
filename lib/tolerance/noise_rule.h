// The tolerance of a tensor from runs of the reference whose first activation was disturbed by one
// rounding. Source: method §2, measured on healthy parallel runs.
#pragma once

#include <cstdint>
#include <vector>

#include "tolerance/tolerance.h"

namespace ttrace::tolerance {

inline constexpr double kNoiseMultiplier = 4;  // m: healthy runs reach 2.3
inline constexpr double kFloorMultiplier = 2;  // f: of ε·‖R‖, for what no noise reaches

// The noise of a scalar can be zero by chance, so its floor is widened too, up to this: a healthy
// gradient norm stood at 3.4 ε where the only noise run had none.
inline constexpr double kMostFloorWidening = 8;

// allowed = m · w · N + f · min(w, 8) · ε · ‖R‖ with N the largest of `noise_norms` (not empty) and
// w the widening for few elements.
Tolerance noise_tolerance(const std::vector<double>& noise_norms, double reference_norm,
                          double epsilon, std::uint64_t elements);

}  // namespace ttrace::tolerance
