// Goes on judging if a layout was declared wrongly, so that this slip hides nothing behind it.
#pragma once

#include <functional>

#include "comparison/result.h"
#include "trace/source.h"

namespace ttrace::engine {

// Compares the reference once more with another reading of the candidate.
using CompareAgain = std::function<comparison::CompareReport(const trace::Source& candidate)>;

// If findings have a cause with a layout that fits (Cause::fits), compares again under these
// layouts, and repeats this while it shows more of them. For each such finding, all tensors with
// its name and its declared layout get the fitting one. These findings stay, with their outcomes,
// and come first; all else is judged under the new layouts. A layout under which the finding's
// tensor does not match after all is not followed. `candidate` must outlive the report.
comparison::CompareReport follow_layouts(comparison::CompareReport report,
                                         const trace::Source& candidate,
                                         const CompareAgain& compare_again);

}  // namespace ttrace::engine
