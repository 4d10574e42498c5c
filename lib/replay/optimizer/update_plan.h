// Plans the replay of an updated parameter: whether it is possible, from which tensors, and with
// which precisions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comparison/pairing.h"
#include "measure/measure_update.h"
#include "measure/optimizer/hyperparameters.h"
#include "measure/optimizer/step.h"
#include "replay/optimizer/clipping.h"
#include "replay/optimizer/settings.h"
#include "trace/manifest.h"

namespace ttrace::replay {

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
std::optional<measure::Rounding> update_rounding(const measure::Hyperparameters& hyperparameters,
                                                 const UpdateEntries& entries, bool clipped);

struct UpdatePlan {
  // Without a problem: what to replay. Everything comes from the candidate but the hyperparameters
  // where the reference was told others: then those, since they are what was meant.
  measure::UpdateTensors tensors;
  measure::UpdateStep step;
  std::string difference;  // of the hyperparameters, in words, or empty
  std::string problem;     // why it cannot be replayed, in words that hold for many parameters
};

// `candidate` of the pair is a `param_after_step`, made of any stored ones (a map may have renamed,
// joined or cut them).
class UpdatePlanner {
 public:
  // Both must outlive the planner.
  UpdatePlanner(const trace::Source& reference, const trace::Source& candidate, Clipping& clipping);

  UpdatePlan plan(const comparison::Pair& pair) const;

 private:
  struct Leaf;
  Leaf leaf_of(const trace::TensorEntry& after,
               const std::optional<measure::Hyperparameters>& reference) const;
  std::optional<measure::Hyperparameters> reference_of(const comparison::Pair& pair) const;

  const trace::Source& candidate_;
  OptimizerIndex references_;
  OptimizerIndex candidates_;
  Clipping& clipping_;
};

}  // namespace ttrace::replay
