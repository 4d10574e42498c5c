// Text files that are read whole: manifests, rules, reports.
#pragma once

#include <cstdint>
#include <string>

namespace ttrace::base {

// The largest text that is read: a manifest of a hundred thousand tensors over four thousand ranks
// has a tenth of that, and what is larger is a mistake or an attack (a sparse file of terabytes).
inline constexpr std::uint64_t kLargestText = std::uint64_t{1} << 30;

// The whole file. Throws an input error naming it if it is not a regular file, larger than
// kLargestText, empty, or cannot be read.
std::string read_text(const std::string& path);

}  // namespace ttrace::base
