// The long part of a comparison: every pair that is to be measured, on several threads.
#pragma once

#include <vector>

#include "engine/noise_source.h"
#include "engine/pairing.h"
#include "report/compare_report.h"
#include "trace/source.h"

namespace ttrace::engine {

struct MeasuredSides {
  const trace::Source& reference;
  const trace::Source& candidate;
  const NoiseSource& noise;
};

// results[i] belongs to pairs[i]; those whose outcome is kMatch and that have no comparison yet get
// one, or become unreadable with the reason. The same for every number of threads (0: one per
// core).
void measure_pairs(const MeasuredSides& sides, const std::vector<Pair>& pairs, unsigned threads,
                   std::vector<report::Result>& results);

}  // namespace ttrace::engine
