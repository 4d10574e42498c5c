// Philox 4×32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011). A pure function; the bits are Random123's.
#pragma once

#include <array>
#include <cstdint>

namespace ttrace::synth {

using Counter = std::array<std::uint32_t, 4>;
using Words = std::array<std::uint32_t, 4>;

// Word 0 of the key is the lower half of `key`.
Words philox4x32(Counter counter, std::uint64_t key);

}  // namespace ttrace::synth
