// The numbers of the noise rule. A tensor has up to a hundred slices, and writing a formula for
// each would take longer than judging it.
#pragma once

#include "judge/noise_rule.h"
#include "judge/tolerance.h"

namespace ttrace::judge {

// Returns noise_tolerance() without its formula.
Tolerance noise_numbers(const NoisySlice& slice, double epsilon, const NoiseConstants& constants);

}  // namespace ttrace::judge
