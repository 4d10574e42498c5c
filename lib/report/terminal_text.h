// Text folded to the width of a terminal, and the line that shows progress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ttrace::report {

struct TextStyle {
  bool colour = false;
  bool all = false;              // print every finding in full and every tensor
  std::size_t width = 0;         // columns to fold to; 0: do not fold
  std::string report_file = {};  // the JSON report that this command writes, or empty
  std::string page_file = {};    // the page that it writes, or empty
};

// The answer of a report in bold. `colour` is an ANSI colour such as "32", green.
std::string bold(std::string_view text, const char* colour, const TextStyle& style);

// Replaces spaces of `text` by line breaks so that no line is wider than `width` columns, unless a
// word is. The first line is assumed to start at column `indent`; the others begin with `indent`
// spaces. A width of 0 does not fold. Bytes that continue a UTF-8 character take no column.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

// Folds every line of `text` that is too wide; continuation lines are indented by two more columns
// than the line. Colour codes take no column.
std::string folded(std::string_view text, std::size_t width);

// How far a comparison is.
struct ProgressState {
  std::uint64_t done_bytes = 0;
  std::uint64_t expected_bytes = 0;
  double seconds = 0;         // since the start
  std::string largest_error;  // tensor with the largest relative error so far, or empty
  double error = 0;
};

// "42 %  1.2 GB of 2.9 GB  8.1 GB/s  0:02 left  largest error 3.1e-3 in fc1 · output · step 0"
std::string progress_text(const ProgressState& state);

}  // namespace ttrace::report
