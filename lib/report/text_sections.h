// The sections of the text report: its first line, a finding, and the notes after the findings.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <ostream>
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

// The block with all evidence of the group's finding that is shown, or of all of them, folded to
// `width` columns (0: not). `number`: as which it is listed, from 1.
struct FindingStyle {
  std::size_t number = 1;
  std::size_t width = 0;
  bool all = false;
};
void write_findings_of(const comparison::CompareReport& report, const FindingGroup& group,
                       const FindingStyle& style, std::ostream& out);
// The same in one line.
void write_line_of(const comparison::CompareReport& report, const FindingGroup& group,
                   std::size_t number, std::ostream& out);

// "lr of 12 parameters", and what the runs were told.
void write_setting(const comparison::CompareReport& report,
                   const comparison::SettingDifference& setting, const FindingStyle& style,
                   std::ostream& out);

// "without the rows of 3 tokens that went to other experts", or empty.
std::string describe_tokens_left_out(const comparison::Result& result);

// Which routers sent tokens elsewhere, and what could not be judged for it; nothing where none did.
void write_routing(const comparison::CompareReport& report, bool all, std::ostream& out);

// The second opinion in words.

// `error_norm` / ‖T‖; infinite where the truth is zero and the error is not.
double relative_to_truth(double error_norm, const measure::TruthErrors& errors);

// "error 3.1 × that of the reference (...)": of one tensor.
std::string describe_truth(const comparison::TensorTruth& truth);

// One for every result, null where it has none.
std::vector<const comparison::TensorTruth*> truths_of(const comparison::CompareReport& report);

// What it comes to over all tensors, in a line; nothing where the report has no truth.
void write_truth(const comparison::CompareReport& report, std::ostream& out);

// Tensors that only one side has, with what they may be called on the other.

// A few lines, or all with `all`; nothing unless both sides have tensors that the other lacks and
// some of them are alike.
void write_unmatched(const comparison::CompareReport& report, bool all, std::ostream& out);

}  // namespace ttrace::report
