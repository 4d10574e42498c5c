// The report for people: the answer first, then the evidence, then the notes.
#pragma once

#include <ostream>

#include "comparison/result.h"

namespace ttrace::report {

struct TextStyle {
  bool colour = false;
  bool all = false;       // print every finding in full and every tensor
  std::size_t width = 0;  // columns to fold to; 0: do not fold
};

void write_text(const comparison::CompareReport& report, const TextStyle& style, std::ostream& out);

}  // namespace ttrace::report
