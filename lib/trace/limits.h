// Limits that real runs never meet: what is beyond them is a mistake or an attack, and is refused
// before anything is made of it. That of texts is in base/files.h.
#pragma once

#include <cstdint>

namespace ttrace::trace {

inline constexpr std::uint64_t kMostRanks = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMostAxes = 64;  // of a mesh

}  // namespace ttrace::trace
