// The second opinion in words.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "report/compare_report.h"

namespace ttrace::report {

// `error_norm` / ‖T‖; infinite where the truth is zero and the error is not.
double relative_to_truth(double error_norm, const compare::TruthErrors& errors);

// "error 3.1 × that of the reference (...)": of one tensor.
std::string truth_words(const TensorTruth& truth);

// One for every result, null where it has none.
std::vector<const TensorTruth*> truths_of(const CompareReport& report);

// What it comes to over all tensors, in a line; nothing where the report has no truth.
void write_truth(const CompareReport& report, std::ostream& out);

}  // namespace ttrace::report
