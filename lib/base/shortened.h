// Messages of bounded length: names and reasons come from files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ttrace::base {

inline constexpr std::size_t kLongestMessage = 2000;  // bytes

// `text`, or its beginning and end with what is left out between them told: a message begins with
// the file and ends with the way out. A character of several bytes is never cut.
std::string shortened(std::string_view text, std::size_t most = kLongestMessage);

}  // namespace ttrace::base
