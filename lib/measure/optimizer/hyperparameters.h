// Reads the hyperparameters of one parameter in one step from a manifest and checks them.
#pragma once

#include <optional>
#include <string>

#include "measure/optimizer/step.h"
#include "trace/manifest.h"

namespace ttrace::measure {

struct ReadHyperparameters {
  std::optional<Hyperparameters> values;
  std::string problem;  // without values: why, for every parameter of the group
};

// Returns the group's numbers if its optimizer can be replayed: its type is known, everything
// needed is recorded, and every number is finite and in the range that torch.optim accepts.
ReadHyperparameters read_hyperparameters(const trace::OptimizerGroup& group);

// Describes the first hyperparameter that has an effect and differs by more than a rounding to
// single precision: "lr 0.1, in the reference 0.2". Empty if none does.
std::string first_difference(const Hyperparameters& candidate, const Hyperparameters& reference);

}  // namespace ttrace::measure
