// Quantiles of the normal distribution at 8 tail probabilities in every octave.
#pragma once

#include <array>
#include <cstdint>

namespace ttrace::synth {

// Entry 8·e + s is the integer nearest to 2^28 · q, where q is exceeded with probability
// 2^(e-33) · (1 + s/8); e from 0 to 31, s from 0 to 7. The last entry is that of probability 1/2.
extern const std::array<std::int32_t, 257> kQuantiles;

}  // namespace ttrace::synth
