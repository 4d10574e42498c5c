// Finds names: by a pattern, and similar ones for an error message if there is no such name.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ttrace::base {

// Whether all of `text` matches the shell-like `pattern`: `*` matches any characters (dots
// included), `?` one. Brackets are literal, because `name[1]` is an ordinary tensor name. The worst
// case takes time proportional to the product of the lengths.
bool glob_match(std::string_view pattern, std::string_view text);

// Returns up to `count` candidates most similar to `wanted`, best first: those that contain it,
// then by edit distance; ties keep the candidates' order. Ignores candidates longer than 512 bytes.
std::vector<std::string> nearest_names(std::string_view wanted,
                                       const std::vector<std::string>& candidates,
                                       std::size_t count = 3);

// Returns "; did you mean "compare"?" for a mistyped word, or "" if no candidate is similar.
std::string did_you_mean(std::string_view wanted, const std::vector<std::string>& candidates);

// Returns "; the nearest names are a, b and c" to end an error message with, or "" without
// candidates.
std::string nearest_hint(std::string_view wanted, const std::vector<std::string>& candidates);

}  // namespace ttrace::base
