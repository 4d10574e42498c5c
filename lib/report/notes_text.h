// The notes after the findings of a comparison.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "comparison/result.h"

namespace ttrace::report {

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
