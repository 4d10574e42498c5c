// Shell-like patterns over tensor names.
#pragma once

#include <string_view>

namespace ttrace::base {

// Whether the whole of `text` matches `pattern`: `*` stands for any characters (dots included), `?`
// for one. Brackets are literal, because `name[1]` is an ordinary tensor name.
// Takes time in proportion to the product of the lengths at worst.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace ttrace::base
