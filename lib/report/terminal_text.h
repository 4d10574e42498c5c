// Text for a terminal: folded to its width, and the line that shows progress.
#pragma once

#include <cstddef>
#include <cstdint>
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

struct ProgressState {
  std::uint64_t done_bytes = 0;
  std::uint64_t expected_bytes = 0;
  double seconds = 0;         // since the beginning
  std::string largest_error;  // tensor with the largest relative error so far, or empty
  double error = 0;
};

// "42 %  1.2 GB of 2.9 GB  8.1 GB/s  0:02 left  largest error 3.1e-3 in fc1 · output · step 0"
std::string progress_text(const ProgressState& state);

}  // namespace ttrace::report
