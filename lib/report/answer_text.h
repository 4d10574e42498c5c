// The answer of a comparison: its first line, and what that says of sharpness and of the first
// divergence.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "comparison/result.h"
#include "report/finding_groups.h"
#include "report/first_line.h"

namespace ttrace::report {

// How sharply the tensors of one precision were checked that match within a tolerance.
struct Sharpness {
  std::string_view precision;  // "f32": the coarsest in which a pair is stored or was computed
  std::size_t tensors = 0;
  double median = 0;  // allowed ‖C - R‖ / ‖R‖
  double widest = 0;
};

// One entry per precision, coarsest first. Leaves out integers, exact rules and replayed values,
// which have no tolerance of this kind, and tensors of zeros.
std::vector<Sharpness> sharpness_of(const comparison::CompareReport& report);

// The first line of the report, which is the answer: the verdict, how sharp the check was, where
// the run diverges first, and what was not checked. `groups`: all groups of the report's findings.
FirstLine first_line_of(const comparison::CompareReport& report,
                        const std::vector<FindingGroup>& groups);

// The answer without the verdict's word and without colour, as reports in files carry it.
std::string headline_text(const comparison::CompareReport& report,
                          const std::vector<FindingGroup>& groups);

// The tensor that diverges first, and how many findings there are: "first at fc · output · step 0
// (3 findings, 8 tensors downstream)". The report must have findings or settings.
std::string describe_first_of(const comparison::CompareReport& report,
                              const std::vector<FindingGroup>& groups);

// 0.52 as "52 %", 0.0012 as "0.12 %".
std::string percent(double share);

// The tensor within its tolerance that used most of it, or null. Exact tensors have none, and in a
// large tensor some element of a replayed update always reaches its bound.
const comparison::TensorComparison* closest_to_limit(const comparison::CompareReport& report);

// "scaled over tp".
std::string name_of(const answer::Cause& cause);

// "scaled over tp: it is twice the reference": with what shows it.
std::string describe_cause(const answer::Cause& cause);

// "cpu x86-64-v4, 2 threads"; with remarks in brackets after it.
std::string execution_text(const answer::Environment& environment);

// "scaled (leaves 0.93), stale (leaves 1.2)": the nearest of the causes that were tried in vain, or
// empty if there is none.
std::string describe_rejected(const std::vector<answer::RejectedCause>& rejected);

}  // namespace ttrace::report
