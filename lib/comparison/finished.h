// What the long part of a comparison yields for one tensor, to be kept so that nobody has to do it
// again: a run that goes on, or the merge of what several processes have measured. All that follows
// (tolerances, outcomes, the frontier, causes) is made anew from it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "comparison/tensor_comparison.h"
#include "judge/noise_rule.h"
#include "measure/measure.h"
#include "measure/measure_update.h"
#include "trace/key.h"

namespace ttrace::comparison {

// The pair held against each other, or why it cannot be.
struct FinishedMeasurement {
  std::string unreadable;  // or empty
  measure::Measurement measurement;
  std::optional<judge::NoiseEstimate> noise;
};

// An updated parameter replayed, or why it cannot be.
struct FinishedReplay {
  double clip =
      1;  // the factor that its gradient was multiplied by, which depends on all gradients
  std::string problem;  // or empty
  measure::UpdateMeasurement measured;
};

// The second opinion, or why there is none.
struct FinishedTruth {
  std::string problem;  // or empty
  TensorTruth truth;
};

struct Finished {
  trace::TensorKey key;
  std::variant<FinishedMeasurement, FinishedReplay, FinishedTruth> what;
};

// Why there is no measurement, replay or second opinion; or empty.
const std::string& problem_of(const Finished& finished);

// One line of printable ASCII without its end; exact to the bit, NaNs included.
std::string finished_line(const Finished& finished);

// The inverse. The line is somebody else's: throws an input error, without a file's name, where it
// is not a whole and undamaged line of finished_line(). Whether boxes, ranks and counts fit the
// tensors is for require_fits (checkpoint.h).
Finished parse_finished(std::string_view line);

}  // namespace ttrace::comparison
