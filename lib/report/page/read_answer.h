// Reads the JSON that a page or another format shows.
#pragma once

#include <string>
#include <string_view>

#include "report/page/page_answer.h"

namespace ttrace::report {

// The answer of compare, audit or localize, or what `ttrace report diff` or trend found. Throws an
// input error that names `file` for any other JSON.
PageAnswer read_page_answer(std::string_view text, const std::string& file);

}  // namespace ttrace::report
