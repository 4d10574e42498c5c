// What was stored before a step and computed by nobody in it: parameters, buffers, optimizer states
// and inputs of the model, of a step before which neither process had made an update. Both sides
// read them from somewhere, so that no rounding of a computation comes between: they are equal, or
// one is the other, rounded to the type in which it is stored.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comparison/result.h"
#include "measure/measure.h"
#include "trace/manifest.h"

namespace ttrace::comparison {

// How many updates a run's process had made when a step began, and whether the run says so.
struct UpdatesBefore {
  std::uint64_t count = 0;
  bool is_known = true;
};

// By `run.updates_before` for the first recorded step. Where that is absent, by the largest number
// of updates that the optimizer's entries of the step have counted before it; without such entries,
// step 0 is the first. Every later step has updates before it.
UpdatesBefore updates_before(const trace::Manifest& manifest, std::uint64_t step);

// Sets `stored_before` of the records to be measured that both sides only read before their first
// common step. If updates came before that step, sets none, and returns it where it has parameters
// and no step before it is in both.
std::optional<LateStart> mark_stored_before(const trace::Manifest& reference,
                                            const trace::Manifest& candidate,
                                            std::vector<TensorComparison>& results);

// What counts as equal in a record that is `stored_before`; nothing if both sides store it alike,
// and for views of tensors that are not all stored alike.
std::optional<measure::Roundings> roundings_of(const TensorComparison& result);

}  // namespace ttrace::comparison
