// Limits that real runs never reach. Larger numbers are a mistake or an attack and are refused
// before memory is taken for them. base/files.h has the limit of texts.
#pragma once

#include <cstdint>

namespace ttrace::trace {

inline constexpr std::uint64_t kMostRanks = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMostAxes = 64;  // of a mesh

}  // namespace ttrace::trace
