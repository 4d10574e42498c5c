// Whether an updated parameter can be judged by replaying its optimizer, and from which tensors.
#pragma once

#include <optional>
#include <string>

#include "compare/measure_update.h"
#include "engine/clipping.h"
#include "engine/optimizer_index.h"
#include "engine/pairing.h"

namespace ttrace::engine {

struct UpdatePlan {
  // Without a problem: what to replay. Everything comes from the candidate but the hyperparameters
  // where the reference was told others: then those, since they are what was meant.
  compare::UpdateTensors tensors;
  compare::UpdateStep step;
  std::string difference;  // of the hyperparameters, in words, or empty
  std::string problem;     // why it cannot be replayed, in words that hold for many parameters
};

// `candidate` of the pair is a `param_after_step`, made of any stored ones (a map may have renamed,
// joined or cut them).
class UpdatePlanner {
 public:
  // Both must outlive the planner.
  UpdatePlanner(const trace::Source& reference, const trace::Source& candidate, Clipping& clipping);

  UpdatePlan plan(const Pair& pair) const;

 private:
  struct Leaf;
  Leaf leaf_of(const trace::TensorEntry& after,
               const std::optional<update::Hyperparameters>& reference) const;
  std::optional<update::Hyperparameters> reference_of(const Pair& pair) const;

  const trace::Source& candidate_;
  OptimizerIndex references_;
  OptimizerIndex candidates_;
  Clipping& clipping_;
};

}  // namespace ttrace::engine
