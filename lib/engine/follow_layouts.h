// Judges on where a layout was declared wrongly, so that a slip in it does not hide what is behind.
#pragma once

#include <functional>

#include "comparison/result.h"
#include "trace/source.h"

namespace ttrace::engine {

// Compares the reference once more with another reading of the candidate.
using CompareAgain = std::function<comparison::CompareReport(const trace::Source& candidate)>;

// Where findings have a cause with a layout that fits (Cause::fits), compares again under these
// layouts, as often as that shows more of them. Of each such finding, the tensors of its name with
// its declared layout take the one that fits. The findings stay, first, and so do their outcomes;
// all else is judged under the layouts. One under which a tensor does not match after all is not
// followed. `candidate` must outlive the report.
comparison::CompareReport follow_layouts(comparison::CompareReport report,
                                         const trace::Source& candidate,
                                         const CompareAgain& compare_again);

}  // namespace ttrace::engine
