// The story of `ttrace selftest`: a healthy pair in, the faults that a comparison of it would catch
// out.
#pragma once

#include <vector>

#include "comparison/selftest_report.h"
#include "engine/compare_traces.h"
#include "trace/source.h"

namespace ttrace::engine {

// Tensors of up to this many elements are kept in memory while faults are tried (128 MiB a thread
// for the pair); larger ones are read again for every fault.
inline constexpr std::uint64_t kMostHeldElements = std::uint64_t{1} << 23;

// Compares the pair as compare_traces does. If it matches, every fault is put into one tensor of
// the candidate at a time, in a copy in memory, and judged as the comparison judges: same
// measurement, tolerances, slices, replicas and replay of the optimizer. The files are only read.
// Faults with sizes are tried on a ladder of δ from 1e-7 to 1, eight to a factor of 10, by
// bisection: everything that is judged is a convex function of δ and within its limit at 0, so that
// a check that catches one δ catches all larger ones. Throws as compare_traces, and an input error
// if a shard can no longer be read. Everything but `environment` is the same for every number of
// threads.
comparison::SelftestReport selftest_traces(const trace::Source& reference,
                                           const trace::Source& candidate,
                                           const std::vector<const trace::Source*>& noise,
                                           CompareOptions options);

}  // namespace ttrace::engine
