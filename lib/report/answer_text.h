// How sharp a comparison was: what a reader must know before he trusts a match.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "comparison/result.h"
#include "report/finding_groups.h"
#include "report/text_report.h"

namespace ttrace::report {

// Of the tensors of one precision that match within a tolerance.
struct Sharpness {
  std::string_view precision;  // "f32": the coarsest that a pair is stored and was computed in
  std::size_t tensors = 0;
  double median = 0;  // allowed ‖C - R‖ / ‖R‖
  double widest = 0;
};

// Coarsest first; integers, exact rules and replayed values aside, which have no tolerance of this
// kind, and tensors of zeros.
std::vector<Sharpness> sharpness_of(const comparison::CompareReport& report);

// The first line of the text report, which is the answer: the verdict, how sharp the check was, and
// where the run goes wrong first.

// Ends with a line break. `groups`: all of the report's.
void write_answer(const comparison::CompareReport& report, const std::vector<FindingGroup>& groups,
                  const TextStyle& style, std::ostream& out);

// 0.52 as "52 %", 0.0012 as "0.12 %".
std::string percent(double share);

}  // namespace ttrace::report
