// The long part of a comparison: every pair that is to be measured, on several threads.
#pragma once

#include <vector>

#include "engine/noise_source.h"
#include "engine/pairing.h"
#include "engine/work_hooks.h"
#include "report/compare_report.h"
#include "trace/source.h"

namespace ttrace::engine {

struct MeasuredSides {
  const trace::Source& reference;
  const trace::Source& candidate;
  const NoiseSource& noise;
};

// Its outcome is kMatch, and it has no comparison yet.
bool is_to_be_measured(const report::Result& result);

// results[i] belongs to pairs[i]; those that are to be measured get a comparison, or become
// unreadable with the reason, or stay as they are if `hooks` stop the work before. The same for
// every number of threads (0: one per core).
void measure_pairs(const MeasuredSides& sides, const std::vector<Pair>& pairs, unsigned threads,
                   std::vector<report::Result>& results, const WorkHooks& hooks = {});

}  // namespace ttrace::engine
