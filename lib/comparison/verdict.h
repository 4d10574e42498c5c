// The verdict of a comparison: whether the run matches, and whether it was really checked.
#pragma once

#include <cstddef>
#include <string>

#include "comparison/result.h"

namespace ttrace::comparison {

// Facts about the two runs that the results do not hold.
struct RunState {
  std::size_t lost_reference_ranks = 0;  // whose files cannot be read
  std::size_t lost_candidate_ranks = 0;
  bool same_run = false;  // reference and candidate are recordings of the same run
  // Why none of the gradients that the optimizers consumed was checked, or empty.
  std::string unrecorded_main_gradients = "";
  // Why rows that only one side has may not be padding, or empty.
  std::string padding_in_doubt = "";
};

// Sets `verdict`, `why` and `why_is_about` from counts and results. A run that was not really
// checked is inconclusive, never a match: lib/judge/README.md, "The verdict of a run", lists the
// conditions in their order.
void decide(const RunState& state, CompareReport& out);

}  // namespace ttrace::comparison
