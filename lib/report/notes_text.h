// Routing flips in words.
#pragma once

#include <iosfwd>
#include <ostream>
#include <string>
#include <vector>

#include "comparison/result.h"

namespace ttrace::report {

// "without the rows of 3 tokens that went to other experts", or empty.
std::string left_out_words(const comparison::Result& result);

// Which routers sent tokens elsewhere, and what could not be judged for it; nothing where none did.
void write_routing(const comparison::CompareReport& report, bool all, std::ostream& out);

// The second opinion in words.

// `error_norm` / ‖T‖; infinite where the truth is zero and the error is not.
double relative_to_truth(double error_norm, const measure::TruthErrors& errors);

// "error 3.1 × that of the reference (...)": of one tensor.
std::string truth_words(const comparison::TensorTruth& truth);

// One for every result, null where it has none.
std::vector<const comparison::TensorTruth*> truths_of(const comparison::CompareReport& report);

// What it comes to over all tensors, in a line; nothing where the report has no truth.
void write_truth(const comparison::CompareReport& report, std::ostream& out);

// Tensors that only one side has, with what they may be called on the other.

// A few lines, or all with `all`; nothing unless both sides have tensors that the other lacks and
// some of them are alike.
void write_unmatched(const comparison::CompareReport& report, bool all, std::ostream& out);

}  // namespace ttrace::report
