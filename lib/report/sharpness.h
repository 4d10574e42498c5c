// How sharp a comparison was: what a reader must know before he trusts a match.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "report/compare_report.h"

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
std::vector<Sharpness> sharpness_of(const CompareReport& report);

}  // namespace ttrace::report
