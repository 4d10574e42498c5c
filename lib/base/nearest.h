// Suggestions for a name that was not found.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ttrace::base {

// The up to `count` candidates most like `wanted`, best first: those that contain it, then by edit
// distance, ties in the candidates' order. Candidates longer than 512 bytes are not considered.
std::vector<std::string> nearest_names(std::string_view wanted,
                                       const std::vector<std::string>& candidates,
                                       std::size_t count = 3);

// "; did you mean "compare"?" for a word that was mistyped, or "" if no candidate is like it.
std::string did_you_mean(std::string_view wanted, const std::vector<std::string>& candidates);

// "; the nearest names are a, b and c", or "" without candidates: the end of an error message.
std::string nearest_hint(std::string_view wanted, const std::vector<std::string>& candidates);

}  // namespace ttrace::base
