// The precisions of an update, from the types of what was recorded of it.
#pragma once

#include <optional>
#include <vector>

#include "trace/manifest.h"
#include "update/hyperparameters.h"
#include "update/rounding.h"

namespace ttrace::engine {

struct UpdateEntries {
  const trace::TensorEntry* after = nullptr;
  const trace::TensorEntry* parameter =
      nullptr;                                   // what the optimizer updates: `main_param`, if any
  const trace::TensorEntry* gradient = nullptr;  // or null
  std::vector<const trace::TensorEntry*> states;
};

// The arithmetic is that of the recorded `main_param`; without one, the coarsest of parameter and
// states; states in a finer type than the parameter mean that there is a finer copy of it that was
// not recorded, of which the parameter is a rounding. Nothing if a type is none that optimizers
// compute in: integers, fp8, and Adam in f16, whose second moments are under- and overflows.
std::optional<update::Rounding> update_rounding(const update::Hyperparameters& hyperparameters,
                                                const UpdateEntries& entries, bool clipped);

}  // namespace ttrace::engine
