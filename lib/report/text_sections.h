// The sections of the text report: the answer, a finding, and the notes after the findings.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "comparison/result.h"
#include "report/finding_groups.h"
#include "report/first_line.h"
#include "report/text_report.h"

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

// Writes the first screen: the answer and a few labelled lines.
void write_screen(const comparison::CompareReport& report, const std::vector<FindingGroup>& groups,
                  const WrittenFirstLine& first, const TextStyle& style, std::ostream& out);

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

// "scaled (leaves 0.93), stale (leaves 1.2)": the nearest of the causes that were tried in vain, or
// empty if there is none.
std::string describe_rejected(const std::vector<comparison::RejectedCause>& rejected);

struct FindingStyle {
  std::size_t number = 1;  // in the list of findings
  std::size_t width = 0;   // columns to fold to; 0: do not fold
  bool all = false;        // all findings of a group, not only the one that is shown
};
// Writes a group of findings with all evidence.
void write_findings_of(const comparison::CompareReport& report, const FindingGroup& group,
                       const FindingStyle& style, std::ostream& out);
// Writes it in one line.
void write_line_of(const comparison::CompareReport& report, const FindingGroup& group,
                   std::size_t number, std::ostream& out);

// Writes an optimizer setting that differs: "lr of 12 parameters", and its values.
void write_setting(const comparison::CompareReport& report,
                   const comparison::SettingDifference& setting, const FindingStyle& style,
                   std::ostream& out);

// How the micro-batches of the runs, which must differ, do, and what to do about it.
std::string describe_microbatches(const comparison::CompareReport& report);

// Writes how the micro-batches of the runs differ and what to do about it, or nothing.
void write_microbatches(const comparison::CompareReport& report, std::ostream& out);

// Writes which weights or inputs differ before the first step. The runs must differ in these.
void write_start(const comparison::CompareReport& report, std::ostream& out);

// "without the rows of 3 tokens that went to other experts", or empty if there are none.
std::string describe_tokens_left_out(const comparison::TensorComparison& result);

// Writes which routers chose other experts, and how many tensors were not judged for that reason.
// Writes nothing if no router did.
void write_routing(const comparison::CompareReport& report, bool all, std::ostream& out);

// `error_norm` / ‖T‖, where T is the tensor of the high-precision run (--truth). Infinite if T is
// zero and the error is not.
double relative_to_truth(double error_norm, const measure::TruthErrors& errors);

// "error 3.1 × that of the reference (...)", for one tensor.
std::string describe_truth(const comparison::TensorTruth& truth);

// One entry per result; null if the result has none.
std::vector<const comparison::TensorTruth*> truths_of(const comparison::CompareReport& report);

// Writes one line about the high-precision run over all tensors, or nothing if there was none.
void write_truth(const comparison::CompareReport& report, std::ostream& out);

// Writes the names that only the reference has, with the most similar names of the candidate: a few
// lines, or all with `all`. Writes nothing if no name has a similar one.
void write_unmatched(const comparison::CompareReport& report, bool all, std::ostream& out);

}  // namespace ttrace::report
