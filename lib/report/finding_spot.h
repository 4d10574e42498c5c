// Where a finding is, in the words that the screens of all commands have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "answer/finding.h"
#include "localize/place.h"
#include "trace/key.h"

namespace ttrace::report {

// "backward; layers.0.attn (Attention), called in model.py:61": the phase of `shown`, and the code,
// where the phase does not say it. `several`: other modules have the finding too, and none is
// named.
std::string describe_spot(const answer::Finding& finding, const trace::TensorKey& shown,
                          const localize::Place& place, bool several);

// "every rank", "rank 1", or nothing where the run has one, or nobody knows.
std::string describe_ranks_of(const std::vector<std::uint64_t>& ranks, std::uint64_t of_run);

}  // namespace ttrace::report
