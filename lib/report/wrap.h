// Text folded to the width of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ttrace::report {

// `text` with line breaks put in place of spaces so that no line is wider than `width` columns,
// where its words allow; lines after the first begin with `indent` spaces, and the first is taken
// to start at column `indent`. A width of 0 folds nothing. A byte that continues a UTF-8 character
// takes no column.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

// Every line of `text` so folded, if it is too wide; what follows begins two columns after where
// the line does. Colours take no column.
std::string folded(std::string_view text, std::size_t width);

}  // namespace ttrace::report
