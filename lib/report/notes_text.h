// The notes after the findings of a comparison.
#pragma once

#include <ostream>
#include <string>

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

// Writes the names that only the reference has, with the most similar names of the candidate: a few
// lines, or all with `all`. Writes nothing if no name has a similar one.
void write_unmatched(const comparison::CompareReport& report, bool all, std::ostream& out);

}  // namespace ttrace::report
