// An answer for a terminal, from its JSON.
#pragma once

#include <string>
#include <string_view>

namespace ttrace::report {

// The answer as one line; and the answer, what was not checked, the findings. Both throw an input
// error for JSON that is none of compare, localize or audit.
std::string shown_line(std::string_view json, const std::string& file);
std::string shown_text(std::string_view json, const std::string& file);

}  // namespace ttrace::report
