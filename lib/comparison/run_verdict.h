// One answer for the whole run.
#pragma once

#include <cstddef>

#include "comparison/result.h"

namespace ttrace::comparison {

// What the results do not say of the two runs.
struct RunState {
  std::size_t lost_reference_ranks = 0;  // whose files cannot be read
  std::size_t lost_candidate_ranks = 0;
  bool same_run = false;  // reference and candidate are the recording of one and the same run
};

// Sets `verdict` and `why` from counts and results. A run that was not really checked is
// inconclusive, never a match: one against itself, one with ranks or tensors that could not be
// read or judged, and one whose loss, gradient norm or a tenth of whose main gradients was not
// (tensors that a selection or a rule leaves out do not count).
void decide(const RunState& state, CompareReport& out);

}  // namespace ttrace::comparison
