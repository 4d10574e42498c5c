// How an optimizer rounds one update, by the types that the trace has of it.
#pragma once

#include <optional>
#include <vector>

#include "measure/optimizer/hyperparameters.h"
#include "measure/optimizer/step.h"
#include "optimizer/gradient_norm.h"
#include "trace/manifest.h"

namespace ttrace::optimizer {

// What one update reads and makes.
struct UpdateEntries {
  const trace::TensorEntry* after = nullptr;
  // The tensor that the optimizer updates: `main_param` if there is one.
  const trace::TensorEntry* parameter = nullptr;
  const trace::TensorEntry* gradient = nullptr;  // or null
  std::vector<const trace::TensorEntry*> states;
};

// Returns the precisions of a replay. The arithmetic is that of the recorded `main_param`; without
// one, the coarsest of parameter and states. States in a finer type than the parameter mean that
// the parameter is a rounding of a finer copy that was not recorded. Nothing for types that
// optimizers do not compute in: integers, fp8, and Adam in f16, whose second moments under- and
// overflow.
std::optional<measure::StepRoundoffs> update_rounding(
    const measure::Hyperparameters& hyperparameters, const UpdateEntries& entries,
    const Clip& clip);

}  // namespace ttrace::optimizer
