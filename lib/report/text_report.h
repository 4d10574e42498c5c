// The report for people: the answer, the evidence, the rest.
#pragma once

#include <ostream>

#include "comparison/result.h"

namespace ttrace::report {

struct TextStyle {
  bool colour = false;
  bool all = false;       // also one line for every tensor
  std::size_t width = 0;  // columns to fold evidence to; 0: not at all
};

void write_text(const comparison::CompareReport& report, const TextStyle& style, std::ostream& out);

}  // namespace ttrace::report
