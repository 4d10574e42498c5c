// Whether REF and RUN look swapped on the command line.
#pragma once

#include <optional>
#include <vector>

#include "base/message.h"
#include "comparison/result.h"
#include "measure/backend.h"
#include "trace/source.h"

namespace ttrace::localize {

// Returns that the reference has several ranks and the candidate one, and whether the reference's
// replicas of a tensor that was found differ: a trusted run's do not. Reads the reference's copies
// of the first 16 findings, and leaves out a tensor that it cannot read.
std::optional<comparison::SwappedRuns> find_swapped_runs(
    const trace::Source& reference, const trace::Source& candidate, const measure::Backend& backend,
    const std::vector<comparison::TensorComparison>& results,
    const std::vector<comparison::ComparedFinding>& findings);

// "REF and RUN look swapped: the reference has 4 ranks and the candidate one, ...".
base::Message describe_swapped(const comparison::SwappedRuns& swapped);

}  // namespace ttrace::localize
