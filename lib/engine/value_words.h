// What a finding about a single number says: both sides' values, and every replica's.
#pragma once

#include <string>

#include "compare/measure.h"
#include "report/compare_report.h"

namespace ttrace::engine {

// "reference 7.97502, candidate 7.9753"; where the candidate's replicas differ, the value of each
// class of ranks: "reference 1, candidate 1 on rank 0, 0.96 on ranks {1, 2}". Empty for more than
// one element, and where a value cannot be read. `result` is the pair's and was measured.
std::string value_words(const compare::TensorRef& reference, const compare::TensorRef& candidate,
                        const report::Result& result);

}  // namespace ttrace::engine
