// The page: one self-contained HTML file of an answer, for people.
#pragma once

#include <string>
#include <string_view>

namespace ttrace::report {

// The page of the JSON that compare, audit or localize writes. `file`: where it is from, for
// errors. Throws an input error for any other JSON.
std::string html_page(std::string_view json, const std::string& file);

}  // namespace ttrace::report
