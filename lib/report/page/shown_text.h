// An answer for a terminal, from its JSON.
#pragma once

#include <string>
#include <string_view>

namespace ttrace::report {

// The same for a terminal: the answer, what was not checked, the findings.
std::string shown_text(std::string_view json, const std::string& file);

}  // namespace ttrace::report
