// The story of `ttrace compare`: two traces in, one report out.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "base/log.h"
#include "comparison/checkpoint/checkpoint.h"
#include "comparison/division.h"
#include "comparison/result.h"
#include "comparison/selection.h"
#include "judge/calibration.h"
#include "layout/map_rules.h"
#include "measure/backend.h"
#include "trace/source.h"

namespace ttrace::engine {

struct CompareOptions {
  comparison::Selection selection;
  measure::ExecutionContext execution;
  std::optional<layout::MapRules> map = std::nullopt;
  bool common = false;  // judge what both sides have, and leave out the rest
  const judge::Calibration* calibration = nullptr;
  std::string calibration_file = "";  // what it was read from, for messages
  std::string today = "";             // "2026-11-21": rules that skip may end on a day
  // Called once, if given, with the measured records, before tolerances are settled and the noise
  // by cell is released.
  std::function<void(const std::vector<comparison::TensorComparison>&)> on_measured = nullptr;
  bool all_slices = false;  // keep every slice that is beyond its tolerance, not the worst 16
  comparison::WorkDivision division = {};
  // What is already measured, and where new measurements are recorded; or null.
  comparison::Checkpoint* work = nullptr;
  base::Progress* progress = nullptr;
  const std::atomic<bool>* stop = nullptr;  // once true, the report covers what is known
};

// `noise`: runs of the reference with its first activation perturbed. If empty, the calibration
// gives the noise; its rules apply in any case. Throws a usage error if the
// selection matches nothing, an input error if a manifest contradicts itself or the map does not
// fit. A tensor or rank that cannot be read is an outcome, not an error. Everything but
// `environment` is the same for every number of threads.
comparison::CompareReport compare_traces(const trace::Source& reference,
                                         const trace::Source& candidate,
                                         const std::vector<const trace::Source*>& noise,
                                         const CompareOptions& options);

}  // namespace ttrace::engine
