// Finding a name: by a pattern over all of it, or by likeness where no name is equal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ttrace::base {

// Whether the whole of `text` matches `pattern`: `*` stands for any characters (dots included), `?`
// for one. Brackets are literal, because `name[1]` is an ordinary tensor name.
// Takes time in proportion to the product of the lengths at worst.
bool glob_match(std::string_view pattern, std::string_view text);

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
