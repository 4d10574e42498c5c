// The story of `ttrace calibrate`: a reference and its perturbed runs in, a tolerance file out.
#pragma once

#include <string>
#include <vector>

#include "comparison/result.h"
#include "judge/calibration.h"
#include "measure/backend.h"
#include "trace/source.h"

namespace ttrace::engine {

struct CalibrationSummary {
  std::uint64_t tensors = 0;  // of a floating-point type, in the reference
  std::uint64_t silent = 0;   // no run moved them
  std::uint64_t chaotic = 0;  // noise of at least half their norm, or not finite: not checked
  std::uint64_t without = 0;  // in no run
  double median_noise = 0;    // ‖R' - R‖ / ‖R‖ over those with a norm
  std::vector<std::string> warnings;
};

// Reads the reference and the runs once, in bounded memory. Throws an input error if a run has
// another shape or type for a tensor, if there is no tensor to calibrate, and if a shard of the
// reference or of a run cannot be read: tolerances are not made of half a run.
judge::Calibration calibrate_traces(const trace::Source& reference,
                                    const std::vector<const trace::Source*>& runs,
                                    const measure::ExecutionContext& execution,
                                    CalibrationSummary& summary);

// Rules that would let a run pass that is known to be good: for every tensor beyond its tolerance a
// pattern (numbers of layers and experts as `*`), its kind, and half again the multiplier that the
// worst of them needs. `report` is the comparison of the reference with the good run.
judge::Policy starter_rules(const comparison::CompareReport& report);

}  // namespace ttrace::engine
